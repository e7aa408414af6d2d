{{- /* The pod of the StatefulSet and of the Deployment: one template, so that they differ only where they must. */ -}}
{{- define "headgate.podTemplate" -}}
{{- $external := include "headgate.external" . -}}
metadata:
  labels:
    {{- include "headgate.selectorLabels" . | nindent 4 }}
    {{- with include "headgate.over" (list .Values.commonLabels .Values.podLabels) | fromYaml }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .Values.podAnnotations .Values.database.url }}
  annotations:
    {{- if .Values.database.url }}
    # A changed connection string replaces the pods.
    checksum/database-url: {{ .Values.database.url | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ include "headgate.serviceAccount" . | toJson }}
  # Headgate asks the cluster nothing.
  automountServiceAccountToken: false
  # Otherwise the kubelet puts HEADGATE_PORT=tcp://… and the like into the environment, and Headgate refuses settings
  # that it does not know.
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | toJson }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  containers:
    - name: headgate
      image: {{ include "headgate.image" . | toJson }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [start]
      env:
        {{- include "headgate.env" . | nindent 8 }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- if include "headgate.listener" . }}
        - name: webhook
          containerPort: {{ .Values.ports.webhook }}
          protocol: TCP
        {{- end }}
        {{- if .Values.sql.expose }}
        - name: sql
          containerPort: {{ .Values.ports.sql }}
          protocol: TCP
        {{- end }}
        {{- if .Values.gateway.enabled }}
        - name: gateway
          containerPort: {{ .Values.ports.gateway }}
          protocol: TCP
        {{- end }}
        - name: admin
          containerPort: {{ .Values.ports.admin }}
          protocol: TCP
      # The admin port opens when the engine has started; after a crash that includes replaying its log.
      startupProbe:
        {{- include "headgate.probe" (merge (dict "path" "/healthz") .Values.startupProbe) | nindent 8 }}
      livenessProbe:
        {{- include "headgate.probe" (merge (dict "path" "/healthz") .Values.livenessProbe) | nindent 8 }}
      readinessProbe:
        {{- include "headgate.probe" (merge (dict "path" "/readyz") .Values.readinessProbe) | nindent 8 }}
      lifecycle:
        preStop:
          exec:
            command: [sleep, {{ .Values.preStopSeconds | quote }}]
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: data
          mountPath: /data
        {{- if .Values.spool.size }}
        - name: spool
          mountPath: /data/spool
        {{- end }}
        - name: tmp
          mountPath: /tmp
        {{- if not $external }}
        - name: shm
          mountPath: /dev/shm
        {{- end }}
        {{- range include "headgate.certificates" . | fromYamlArray }}
        - name: tls-{{ .door }}
          mountPath: /tls/{{ .door }}
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: data
      {{- if $external }}
      emptyDir:
        sizeLimit: 64Mi
      {{- else }}
      persistentVolumeClaim:
        claimName: {{ include "headgate.dataClaim" . | toJson }}
      {{- end }}
    - name: tmp
      emptyDir:
        sizeLimit: 256Mi
    {{- if not $external }}
    # PostgreSQL's parallel queries share memory here; a container's own 64Mi are soon full.
    - name: shm
      emptyDir:
        medium: Memory
        sizeLimit: 256Mi
    {{- end }}
    {{- range include "headgate.certificates" . | fromYamlArray }}
    - name: tls-{{ .door }}
      secret:
        secretName: {{ .secretName | toJson }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
  {{- else if $external }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "headgate.selectorLabels" . | nindent 10 }}
  {{- end }}
{{- end -}}

{{- define "headgate.probe" -}}
httpGet:
  path: {{ .path }}
  port: admin
{{- with .initialDelaySeconds }}
initialDelaySeconds: {{ . }}
{{- end }}
periodSeconds: {{ .periodSeconds }}
timeoutSeconds: {{ .timeoutSeconds }}
failureThreshold: {{ .failureThreshold }}
{{- end -}}

{{- define "headgate.env" -}}
- name: HEADGATE_DATA_DIR
  value: /data
# Without the listener nothing listens on its port, whatever a Service says.
- name: HEADGATE_LISTEN_ENABLED
  value: {{ .Values.frontendComponent.webhookListener | quote }}
{{- if include "headgate.listener" . }}
- name: HEADGATE_LISTEN_PORT
  value: {{ .Values.ports.webhook | quote }}
{{- end }}
- name: HEADGATE_SQL_HOST
  value: {{ ternary "0.0.0.0" "127.0.0.1" .Values.sql.expose | quote }}
- name: HEADGATE_SQL_PORT
  value: {{ .Values.ports.sql | quote }}
# The kubelet probes the admin port from outside of the pod's network namespace, so it cannot stay on loopback;
# HEADGATE_INSECURE says that something else keeps others away: the NetworkPolicy.
- name: HEADGATE_ADMIN_HOST
  value: 0.0.0.0
- name: HEADGATE_ADMIN_PORT
  value: {{ .Values.ports.admin | quote }}
- name: HEADGATE_INSECURE
  value: "true"
- name: HEADGATE_LOG_FORMAT
  value: json
- name: HEADGATE_LOG_LEVEL
  value: {{ .Values.logLevel }}
# From the environment, not from a mounted file: with an fsGroup the kubelet makes mounted Secrets readable by the
# group, and Headgate refuses a key file that others can read.
- name: HEADGATE_MASTER_KEY
  valueFrom:
    secretKeyRef:
      name: {{ include "headgate.masterKeySecret" . | toJson }}
      key: {{ .Values.masterKey.key | toJson }}
{{- if include "headgate.external" . }}
- name: HEADGATE_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "headgate.databaseSecret" . | toJson }}
      key: {{ .Values.database.key | toJson }}
{{- end }}
{{- with .Values.publicUrl }}
- name: HEADGATE_PUBLIC_URL
  value: {{ . | quote }}
{{- end }}
{{- if .Values.gateway.enabled }}
- name: EVENTS_API_HOST
  value: 0.0.0.0
- name: EVENTS_API_PORT
  value: {{ .Values.ports.gateway | quote }}
- name: EVENTS_API_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ include "headgate.gatewaySecret" . | toJson }}
      key: {{ .Values.gateway.key | toJson }}
{{- end }}
{{- with .Values.sql.existingSecret }}
- name: HEADGATE_SQL_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ . | toJson }}
      key: {{ $.Values.sql.key | toJson }}
{{- end }}
{{- range include "headgate.certificates" . | fromYamlArray }}
- name: HEADGATE_{{ .variable }}_TLS_CERT
  value: /tls/{{ .door }}/tls.crt
- name: HEADGATE_{{ .variable }}_TLS_KEY
  value: /tls/{{ .door }}/tls.key
{{- end }}
{{- /* Only if set: Headgate has its own defaults. */ -}}
{{- with .Values.access.trustedProxies }}
- name: HEADGATE_TRUSTED_PROXIES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.access.listenNetworks }}
- name: HEADGATE_LISTEN_NETWORKS
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.access.gatewayNetworks }}
- name: HEADGATE_GATEWAY_NETWORKS
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.access.addressRate }}
- name: HEADGATE_ADDRESS_RATE
  value: {{ . | quote }}
{{- end }}
{{- with .Values.access.tableRate }}
- name: HEADGATE_TABLE_RATE
  value: {{ . | quote }}
{{- end }}
{{- with .Values.listeners }}
- name: HEADGATE_LISTENERS
  value: {{ int64 . | quote }}
{{- end }}
{{- with .Values.bodyBytesMax }}
- name: HEADGATE_BODY_BYTES_MAX
  value: {{ int64 . | quote }}
{{- end }}
{{- range .Values.extraEnv }}
{{- /* The API accepts only strings: a number or a boolean becomes one here. */ -}}
{{- if hasKey . "value" }}
{{ list (merge (dict "value" (include "headgate.text" .value)) .) | toYaml }}
{{- else }}
{{ list . | toYaml }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* A number as it was written: an integer has no exponent. */ -}}
{{- define "headgate.text" -}}
{{- if kindIs "float64" . -}}
{{- if eq . (floor .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- /* The doors that have their own certificate. */ -}}
{{- define "headgate.certificates" -}}
{{- $all := list -}}
{{- with .Values.tls.listenerSecret }}{{ $all = append $all (dict "door" "listener" "variable" "LISTEN" "secretName" .) }}{{ end -}}
{{- with .Values.tls.sqlSecret }}{{ $all = append $all (dict "door" "sql" "variable" "SQL" "secretName" .) }}{{ end -}}
{{- with .Values.tls.gatewaySecret }}{{ $all = append $all (dict "door" "gateway" "variable" "GATEWAY" "secretName" .) }}{{ end -}}
{{- toYaml $all -}}
{{- end -}}
