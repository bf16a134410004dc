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

{{- define "surescale.envFrom" -}}
- configMapRef:
    name: {{ include "surescale.name" (list . "road") }}
- secretRef: # addresses that carry passwords, for example SURESCALE_REDIS_URL
    name: {{ .Values.secret }}
    optional: true
{{- end }}

{{- define "surescale.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* What the state service finds in its secret, besides what every role does. */}}
{{- define "surescale.stateFiles" -}}
{{- $files := list (list "REDIS_PASSWORD" "redis-password") (list "REDIS_CA" "redis-ca.pem") }}
{{- $files = concat $files (list (list "HTTP_TOKEN" "http-tokens") (list "HTTP_OPERATE_TOKEN" "operate-tokens")) }}
{{- range concat $files (list (list "HTTP_CERTIFICATE" "state.pem") (list "HTTP_KEY" "state-key.pem")) }}
- name: SURESCALE_{{ index . 0 }}_FILE
  value: /run/surescale/{{ index . 1 }}
{{- end }}
{{- end }}

{{- /*
The pod template of a role. Call with a dict:
  root       the chart's scope
  role       its name here: monitor, spark, agent, rescaler, state
  image      its image, and its name for `surescale health`; the role's name if absent
  command    the container's command; the image's if absent
  standby    true where a replica that waits is ready too
  patience   how often the start may be asked for, every five seconds (30)
  grace      seconds to end in (15)
  scratch    size of /tmp (64Mi)
  http       true: the container serves the HTTP API
  init       YAML of init containers
  mounts, volumes   YAML of more of them
  asksCluster  true: it asks the cluster's API
*/}}
{{- define "surescale.pod" -}}
{{- $root := .root -}}
{{- $image := .image | default .role -}}
metadata:
  labels:
    {{- include "surescale.labels" $root | nindent 4 }}
    app.kubernetes.io/name: {{ include "surescale.name" (list $root .role) }}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: "8099"
    prometheus.io/path: /metrics
    # A changed setting restarts the role.
    checksum/settings: {{ include (print $root.Template.BasePath "/settings.yaml") $root | sha256sum }}
spec:
  serviceAccountName: {{ include "surescale.name" (list $root .role) }}
  automountServiceAccountToken: {{ .asksCluster | default false }}
  terminationGracePeriodSeconds: {{ .grace | default 15 }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile:
      type: RuntimeDefault
  {{- if and $root.Values.spread (has .role (list "agent" "rescaler")) }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          app.kubernetes.io/part-of: surescale
      matchLabelKeys: [app.kubernetes.io/name]
  {{- end }}
  {{- with .init }}
  initContainers:
    {{- . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: {{ include "surescale.image" (list $root $image) }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      {{- with .command }}
      command: {{ toJson . }}
      {{- end }}
      envFrom:
        {{- include "surescale.envFrom" $root | nindent 8 }}
      {{- if or .http $root.Values.secure.enabled }}
      env:
        {{- if .http }}
        - name: SURESCALE_HTTP_HOST
          value: 0.0.0.0
        {{- if $root.Values.notify.enabled }}
        - name: SURESCALE_NOTIFY_KEY_FILE
          value: /run/surescale-notify/key
        {{- end }}
        {{- end }}
        {{- if $root.Values.secure.enabled }}
        - name: SURESCALE_KAFKA_USERNAME
          value: surescale-{{ $image }}
        {{- if .http }}
        {{- include "surescale.stateFiles" . | nindent 8 }}
        {{- end }}
        {{- end }}
      {{- end }}
      ports:
        {{- if .http }}
        - name: http
          containerPort: 8070
        {{- end }}
        - name: metrics
          containerPort: 8099
      securityContext:
        {{- include "surescale.containerSecurity" $root | nindent 8 }}
      startupProbe:
        exec:
          command: [surescale, health, {{ $image }}, --alive]
        periodSeconds: 5
        timeoutSeconds: 8
        failureThreshold: {{ .patience | default 30 }}
      readinessProbe:
        exec:
          command: [surescale, health, {{ $image }}{{ if .standby }}, --alive{{ end }}]
        periodSeconds: 10
        timeoutSeconds: 8
      livenessProbe:
        exec:
          command: [surescale, health, {{ $image }}, --alive]
        periodSeconds: 20
        timeoutSeconds: 8
        failureThreshold: 3
      resources:
        {{- toYaml (index $root.Values .role).resources | nindent 8 }}
      volumeMounts:
        - name: scratch
          mountPath: /tmp
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- if and .asksCluster $root.Values.consumers.enabled }}
        - name: groups
          mountPath: /etc/surescale/groups
          readOnly: true
        {{- end }}
        {{- if and $root.Values.flink.enabled (has .role (list "monitor" "rescaler")) }}
        - name: engine
          mountPath: /run/surescale-engine
          readOnly: true
        {{- end }}
        {{- if and .http $root.Values.notify.enabled }}
        - name: notify
          mountPath: /run/surescale-notify
          readOnly: true
        {{- end }}
        {{- if and .asksCluster $root.Values.flinkOperator.enabled }}
        - name: flink-jobs
          mountPath: /etc/surescale/flink
          readOnly: true
        {{- end }}
        {{- if $root.Values.secure.enabled }}
        - name: access
          mountPath: /run/surescale
          readOnly: true
        {{- end }}
  volumes:
    - name: scratch
      emptyDir:
        sizeLimit: {{ .scratch | default "64Mi" }}
    {{- if and .asksCluster $root.Values.consumers.enabled }}
    - name: groups
      configMap:
        name: {{ include "surescale.name" (list $root "groups") }}
    {{- end }}
    {{- if and $root.Values.flink.enabled (has .role (list "monitor" "rescaler")) }}
    - name: engine
      secret:
        secretName: {{ include "surescale.name" (list $root "engine") }}
        optional: true
        defaultMode: 288 # 0440, for the pod's group
    {{- end }}
    {{- if and .http $root.Values.notify.enabled }}
    - name: notify
      secret:
        secretName: {{ include "surescale.name" (list $root "notify") }}
        defaultMode: 288 # 0440, for the pod's group
    {{- end }}
    {{- if and .asksCluster $root.Values.flinkOperator.enabled }}
    - name: flink-jobs
      configMap:
        name: {{ include "surescale.name" (list $root "flink-jobs") }}
    {{- end }}
    {{- if $root.Values.secure.enabled }}
    - name: access
      secret:
        secretName: {{ include "surescale.name" (list $root "access") }}-{{ .role }}
        defaultMode: 288 # 0440, for the pod's group
    {{- end }}
{{- end }}

{{- /* Kind, name and labels of a role's workload, up to its spec. Call with (list . "agent" "Deployment"). */}}
{{- define "surescale.workload" -}}
{{- $root := index . 0 -}}
apiVersion: apps/v1
kind: {{ index . 2 }}
metadata:
  name: {{ include "surescale.name" (list $root (index . 1)) }}
  labels:
    {{- include "surescale.labels" $root | nindent 4 }}
    app.kubernetes.io/name: {{ include "surescale.name" (list $root (index . 1)) }}
{{- end }}

{{- define "surescale.selector" -}}
app.kubernetes.io/name: {{ include "surescale.name" . }}
{{- end }}
