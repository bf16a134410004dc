{{- define "surescale.labels" -}}
app.kubernetes.io/part-of: surescale
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The name of a role's objects. Call with (list . "agent"). */}}
{{- define "surescale.name" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s" $root.Release.Name (index . 1) | trunc 52 -}}
{{- end }}

{{- /* An image. Call with (list . "monitor"). */}}
{{- define "surescale.image" -}}
{{- $root := index . 0 -}}
{{- printf "%s/%s:%s" $root.Values.image.registry (index . 1) ($root.Values.image.tag | default $root.Chart.AppVersion) -}}
{{- with index $root.Values.image.digests (index . 1) }}@{{ . }}{{ end -}}
{{- end }}

{{- define "surescale.prometheusLabels" -}}
{{- include "surescale.labels" . }}
{{- with .Values.prometheus.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
