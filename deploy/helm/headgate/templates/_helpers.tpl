{{- define "headgate.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* 50 characters leave room for the suffixes of the objects' and pods' names. */ -}}
{{- define "headgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "headgate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "headgate.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "headgate.selectorLabels" -}}
{{- /* toJson quotes a text on one line: a release may be called 42, and a value cannot become anything but a value. */ -}}
app.kubernetes.io/name: {{ include "headgate.name" . | toJson }}
app.kubernetes.io/instance: {{ .Release.Name | toJson }}
{{- end -}}

{{- define "headgate.ownLabels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- /* Labels of every object. */ -}}
{{- define "headgate.labels" -}}
{{ include "headgate.labelsWith" (list . dict) }}
{{- end -}}

{{- /* The same with further ones: (list . labels); these override commonLabels. */ -}}
{{- define "headgate.labelsWith" -}}
{{- $root := index . 0 -}}
{{ include "headgate.selectorLabels" $root }}
{{ include "headgate.ownLabels" $root }}
{{- with include "headgate.over" (list $root.Values.commonLabels (index . 1)) | fromYaml }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* (list . annotations); these override commonAnnotations. Empty if there are none. */ -}}
{{- define "headgate.annotations" -}}
{{- with include "headgate.over" (list (index . 0).Values.commonAnnotations (index . 1)) | fromYaml -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- /* (list under over): the names and texts of both; those of the second override those of the first. */ -}}
{{- define "headgate.over" -}}
{{- $all := dict -}}
{{- range $texts := . -}}
{{- range $name, $text := $texts -}}{{- $_ := set $all $name $text -}}{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{- define "headgate.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "headgate.fullname" .) -}}
{{- end -}}

{{- /* Prefixed with the registry that a parent chart sets for all its images. */ -}}
{{- define "headgate.image" -}}
{{- with (.Values.global).imageRegistry }}{{ . | trimSuffix "/" }}/{{ end -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Every name of the variables that values of the chart set; extraEnv is for all others. */ -}}
{{- define "headgate.managedEnvironment" -}}
HEADGATE_DATA_DIR HEADGATE_LISTEN_ENABLED HEADGATE_LISTEN_PORT HEADGATE_SQL_HOST HEADGATE_SQL_PORT HEADGATE_ADMIN_HOST HEADGATE_ADMIN_PORT HEADGATE_INSECURE HEADGATE_LOG_FORMAT HEADGATE_LOG_LEVEL HEADGATE_MASTER_KEY HEADGATE_MASTER_KEY_FILE HEADGATE_DATABASE_URL HEADGATE_PUBLIC_URL HEADGATE_SQL_PASSWORD HEADGATE_SQL_PASSWORD_FILE HEADGATE_LISTEN_TLS_CERT HEADGATE_LISTEN_TLS_KEY HEADGATE_SQL_TLS_CERT HEADGATE_SQL_TLS_KEY HEADGATE_GATEWAY_TLS_CERT HEADGATE_GATEWAY_TLS_KEY HEADGATE_TRUSTED_PROXIES HEADGATE_LISTEN_NETWORKS HEADGATE_GATEWAY_NETWORKS HEADGATE_ADDRESS_RATE HEADGATE_TABLE_RATE HEADGATE_LISTENERS HEADGATE_BODY_BYTES_MAX EVENTS_API_HOST EVENTS_API_PORT EVENTS_API_TOKEN HEADGATE_GATEWAY_HOST HEADGATE_GATEWAY_PORT HEADGATE_GATEWAY_TOKEN
{{- end -}}

{{- /* Labels that identify the release's objects; no value may set them. */ -}}
{{- define "headgate.reservedLabels" -}}
app.kubernetes.io/name app.kubernetes.io/instance app.kubernetes.io/managed-by app.kubernetes.io/component helm.sh/chart
{{- end -}}

{{- /* "true" with an external database, empty with the embedded engine. */ -}}
{{- define "headgate.external" -}}
{{- if or .Values.database.existingSecret .Values.database.url -}}true{{- end -}}
{{- end -}}

{{- define "headgate.listener" -}}
{{- if .Values.frontendComponent.webhookListener -}}true{{- end -}}
{{- end -}}

{{- define "headgate.databaseSecret" -}}
{{- .Values.database.existingSecret | default (printf "%s-database" (include "headgate.fullname" .)) -}}
{{- end -}}

{{- define "headgate.masterKeySecret" -}}
{{- .Values.masterKey.existingSecret | default (printf "%s-master-key" (include "headgate.fullname" .)) -}}
{{- end -}}

{{- define "headgate.gatewaySecret" -}}
{{- .Values.gateway.existingSecret | default (printf "%s-gateway" (include "headgate.fullname" .)) -}}
{{- end -}}

{{- /* "true" if the pods have their own volumes: a StatefulSet; otherwise empty, a Deployment. */ -}}
{{- define "headgate.stateful" -}}
{{- if or (not (include "headgate.external" .)) .Values.spool.size -}}true{{- end -}}
{{- end -}}

{{- define "headgate.dataClaim" -}}
{{- .Values.storage.existingClaim | default (printf "%s-data" (include "headgate.fullname" .)) -}}
{{- end -}}

{{- /* Checks that the schema cannot express, because they involve several values. */ -}}
{{- define "headgate.check" -}}
{{- $external := include "headgate.external" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" (include "headgate.fullname" .)) -}}
{{- fail (printf "%s is no name for a Service: set fullnameOverride to one of letters, digits and dashes that begins with a letter" (include "headgate.fullname" .)) -}}
{{- end -}}
{{- if and .Values.database.existingSecret .Values.database.url -}}
{{- fail "set database.existingSecret or database.url, not both" -}}
{{- end -}}
{{- if and (not $external) (gt (int .Values.replicas) 1) -}}
{{- fail "replicas above 1 need an external database (database.existingSecret or database.url): the embedded engine is one process on one volume" -}}
{{- end -}}
{{- if and (not $external) .Values.autoscaling.enabled -}}
{{- fail "autoscaling needs an external database (database.existingSecret or database.url): the embedded engine is one process on one volume" -}}
{{- end -}}
{{- if and (not $external) .Values.spool.size -}}
{{- fail "spool.size needs an external database: the volume of the embedded engine holds what is spooled as well" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not (include "headgate.listener" .)) -}}
{{- fail "ingress.enabled needs frontendComponent.webhookListener=true: the ingress leads to the listener only" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled needs at least one name in ingress.hosts" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not (include "headgate.listener" .)) -}}
{{- fail "httpRoute.enabled needs frontendComponent.webhookListener=true: the route leads to the listener only" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.enabled needs at least one Gateway in httpRoute.parentRefs" -}}
{{- end -}}
{{- if and (not $external) .Values.sql.expose (not .Values.sql.existingSecret) -}}
{{- fail "sql.expose needs sql.existingSecret, a Secret with the password: the embedded engine trusts whoever reaches the SQL door" -}}
{{- end -}}
{{- if and $external .Values.sql.existingSecret -}}
{{- fail "sql.existingSecret is for the embedded engine: the server of database asks for passwords itself" -}}
{{- end -}}
{{- $managed := splitList " " (include "headgate.managedEnvironment" . | trim) -}}
{{- $given := dict -}}
{{- range .Values.extraEnv -}}
{{- if has .name $managed -}}
{{- fail (printf "extraEnv must not set %s: another value of the chart does" .name) -}}
{{- end -}}
{{- if hasKey $given .name -}}
{{- fail (printf "extraEnv has %s twice" .name) -}}
{{- end -}}
{{- $_ := set $given .name true -}}
{{- end -}}
{{- $reserved := splitList " " (include "headgate.reservedLabels" . | trim) -}}
{{- range $value, $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "serviceMonitor.labels" .Values.serviceMonitor.labels "prometheusRule.labels" .Values.prometheusRule.labels "grafanaDashboard.labels" .Values.grafanaDashboard.labels -}}
{{- range $name, $_ := $labels -}}
{{- if has $name $reserved -}}
{{- fail (printf "%s must not set %s: it finds what belongs to the release" $value $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add (int .Values.preStopSeconds) 20) -}}
{{- fail "terminationGracePeriodSeconds must be at least preStopSeconds + 20: the drain takes up to 10 s, the engine's clean stop up to 6 s" -}}
{{- end -}}
{{- $ports := list .Values.ports.webhook .Values.ports.sql .Values.ports.gateway .Values.ports.admin -}}
{{- if ne (len $ports) (len ($ports | uniq)) -}}
{{- fail "ports must differ from each other" -}}
{{- end -}}
{{- range $name, $_ := .Values.commonAnnotations -}}
{{- if hasPrefix "helm.sh/" $name -}}
{{- fail (printf "commonAnnotations must not set %s: it would take the release's objects out of the release" $name) -}}
{{- end -}}
{{- end -}}
{{- $nodePorts := list -}}
{{- range .Values.nodePorts }}{{ with . }}{{ $nodePorts = append $nodePorts . }}{{ end }}{{ end -}}
{{- if and $nodePorts (eq .Values.service.type "ClusterIP") -}}
{{- fail "nodePorts need service.type=NodePort or LoadBalancer" -}}
{{- end -}}
{{- if ne (len $nodePorts) (len ($nodePorts | uniq)) -}}
{{- fail "nodePorts must differ from each other" -}}
{{- end -}}
{{- end -}}
