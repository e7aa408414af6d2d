{{- define "headgate.notes" -}}
{{- $name := include "headgate.fullname" . -}}
{{- $workload := ternary "statefulset" "deployment" (eq (include "headgate.stateful" .) "true") -}}
Headgate {{ .Chart.AppVersion }} ({{ ternary "external PostgreSQL" "embedded PostgreSQL" (eq (include "headgate.external" .) "true") }}).
{{ if include "headgate.listener" . }}
The webhook listener, inside the cluster:

  http://{{ $name }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:{{ .Values.ports.webhook }}/webhook/<database>/<schema>/<table>
{{- with .Values.nodePorts.webhook }}
  http://<any node>:{{ . }}/webhook/<database>/<schema>/<table>
{{- end }}
{{- range .Values.ingress.hosts }}
{{- if $.Values.ingress.enabled }}
  {{ ternary "https" "http" (gt (len $.Values.ingress.tls) 0) }}://{{ . }}/webhook/<database>/<schema>/<table>
{{- end }}
{{- end }}
{{- if .Values.httpRoute.enabled }}
{{- range .Values.httpRoute.hostnames }}
  {{ . }}, path /webhook/<database>/<schema>/<table>, through the Gateway
{{- end }}
{{- end }}
{{ else }}
The webhook listener is off. To open it:

  helm upgrade {{ .Release.Name }} <chart> --namespace {{ .Release.Namespace }} --reuse-values --set frontendComponent.webhookListener=true
{{ end }}
A first table, through the SQL door:

  kubectl --namespace {{ .Release.Namespace }} port-forward {{ $workload }}/{{ $name }} {{ .Values.ports.sql }} &
  psql -h localhost -p {{ .Values.ports.sql }} -d dev -U root -c "
    CREATE TABLE orders (data JSONB) WITH (connector = 'webhook')
    VALIDATE AS secure_compare(headers->>'signature', 'test')"
{{ if include "headgate.listener" . }}
A first request, from inside the cluster:

  kubectl --namespace {{ .Release.Namespace }} run first-request --rm -i --restart=Never --image=curlimages/curl -- \
    -sS -H 'signature: test' -d '{"id": 1}' \
    http://{{ $name }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:{{ .Values.ports.webhook }}/webhook/dev/public/orders
{{ end }}
Whether it is ready:

  helm test {{ .Release.Name }} --namespace {{ .Release.Namespace }}
{{ if not .Values.masterKey.existingSecret }}
The key that seals secrets is in the Secret {{ include "headgate.masterKeySecret" . }}: keep a copy outside of the cluster.
{{ end }}
{{- end -}}
