{{/* Names and labels. The argument (list $ "component") names a component. */}}
{{- define "headgate.app" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "headgate.name" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "headgate.app" .) .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "headgate.app" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "headgate.release" -}}
app.kubernetes.io/name: {{ include "headgate.app" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "headgate.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ include "headgate.app" $ }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "headgate.labels" -}}
{{- $ := index . 0 -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version }}
{{- end }}

{{/* Labels of pods: those of the chart, then the operator's. */}}
{{- define "headgate.podLabels" -}}
{{ include "headgate.labels" . }}
{{- with (index . 0).Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "headgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "headgate.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* The name never changes: Helm would delete a ConfigMap of another name while old pods still need it
     (docs/operate/upgrade.md). The checksum in the pods' annotations restarts them after a change. */}}
{{- define "headgate.configMap" -}}
{{ include "headgate.name" . }}-config
{{- end }}

{{/* Restarts gateways after a change of anything but topics and schemas, which they reload. */}}
{{- define "headgate.configSum" -}}
{{ .Values.config | sha256sum | trunc 16 }}
{{- end }}

{{/* Restarts the other programs after any change: they read the file only when they start. */}}
{{- define "headgate.fileSum" -}}
{{ list .Values.config .Values.topics .Values.schemas | toJson | sha256sum | trunc 16 }}
{{- end }}

{{/* "yes" if the configuration has a section outside of comments, else empty. The argument is (list $ "name"). */}}
{{- define "headgate.hasSection" -}}
{{- $ := index . 0 -}}
{{- if regexMatch (printf "(?m)^[ \\t]*\\[[ \\t]*%s[ \\t]*\\]" (index . 1)) (print $.Values.config "\n" $.Values.topics) }}yes{{ end -}}
{{- end }}

{{/* The configuration file and the schemas, as the ConfigMap has them. */}}
{{- define "headgate.files" -}}
headgate.toml: |
  {{- .Values.config | nindent 2 }}
  {{- .Values.topics | nindent 2 }}
{{- range $name, $schema := .Values.schemas }}
{{ $name }}: {{ $schema | quote }}
{{- end }}
{{- end }}

{{/* Fails for text that is not TOML, and for secrets, which a ConfigMap would show to its readers.
     Helm has `fromToml` since 3.17. An older Helm refuses a template that names it, so only `tpl` names it. */}}
{{- define "headgate.refuseBadConfig" -}}
{{- if semverCompare ">=3.17-0" .Capabilities.HelmVersion.Version -}}
{{- range $name, $text := dict "config" .Values.config "config, followed by topics," (print .Values.config "\n" .Values.topics) -}}
{{- with tpl "{{ (fromToml .text).Error }}" (dict "text" $text "Template" $.Template) -}}
{{- fail (printf "%s is not TOML: %s" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with regexFind "(?m)^[^#\n]*\\b(sasl_password|sasl_oauth_client_secret|headers)[\"']?[ \\t]*=" (print .Values.config "\n" .Values.topics) -}}
{{- fail (printf "`%s` in config or topics would put a secret into a ConfigMap: write `%s_file = \"/run/secrets/headgate/KEY\"`, and set `secret` to the Secret with that key" (. | trimSuffix "=" | trim) (regexFind "[a-z_]+[\"']?[ \\t]*=$" . | trimSuffix "=" | trim | trimAll "\"'")) -}}
{{- end -}}
{{- $password := "://[^\\s\"'/@]*:[^\\s\"']*@|[?&][a-z_]*password=" -}}
{{- if regexMatch (printf "(?m)^[^#\n]*(%s)" $password) (print .Values.config "\n" .Values.topics) -}}
{{- fail "a URL in config or topics has a password, which would be in a ConfigMap: for Redis write `url_file = \"/run/secrets/headgate/KEY\"`, and set `secret` to the Secret with that key" -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if and .value (or (regexMatch $password .value) (regexMatch "^HEADGATE_.*__(SASL_PASSWORD|SASL_OAUTH_CLIENT_SECRET|HEADERS)$" .name)) -}}
{{- fail (printf "%s in extraEnv has a secret as its value, which the pods would show: use valueFrom.secretKeyRef" .name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "headgate.scheme" -}}
{{ ternary "HTTPS" "HTTP" (ne .Values.tlsSecret "") }}
{{- end }}

{{- define "headgate.image" -}}
{{- $ := index . 0 }}{{ $image := index . 1 -}}
image: "{{ $image.repository }}{{ with $image.digest }}@{{ . }}{{ else }}:{{ $image.tag | default $.Chart.AppVersion }}{{ end }}"
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}

{{/* The argument is (list $ "component" VALUES): placement in the component's values replaces that of all pods. */}}
{{- define "headgate.pod" -}}
{{- $ := index . 0 -}}
{{- $selector := fromYaml (include "headgate.selector" .) -}}
{{- $own := index . 2 -}}
serviceAccountName: {{ include "headgate.serviceAccount" $ }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $own.nodeSelector | default $.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations | default $.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity | default $.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- ternary . (merge (dict "labelSelector" (dict "matchLabels" $selector)) .) (hasKey . "labelSelector") | list | toYaml | nindent 2 }}
  {{- end }}
{{- end }}
{{- with $.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $.Values.extraInitContainers }}
initContainers: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "headgate.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Configuration and secrets of every program, and a folder for temporary files. */}}
{{- define "headgate.mounts" -}}
- {name: config, mountPath: /etc/headgate, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.secret }}
- {name: secret, mountPath: /run/secrets/headgate, readOnly: true}
{{- end }}
{{- if .Values.tlsSecret }}
- {name: tls, mountPath: /run/secrets/tls, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "headgate.volumes" -}}
- name: config
  configMap: {name: {{ .files | default (include "headgate.configMap" .) }}}
- name: tmp
  emptyDir: {}
{{- with .Values.secret }}
- name: secret
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.tlsSecret }}
- name: tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Options that other objects of this chart rely on. The environment overrides the file. */}}
{{- define "headgate.env" -}}
- {name: HEADGATE_HTTP__PORT, value: "8080"}
- {name: HEADGATE_HTTP__MANAGEMENT_PORT, value: "9090"}
- {name: HEADGATE_MONITOR__PORT, value: "9096"}
- {name: HEADGATE_COALESCER__PORT, value: "9091"}
- {name: HEADGATE_COALESCER__IN_GATEWAY, value: {{ not .Values.coalescer.enabled | quote }}}
{{- if .Values.tlsSecret }}
- {name: HEADGATE_HTTP__TLS_CERT_FILE, value: /run/secrets/tls/tls.crt}
- {name: HEADGATE_HTTP__TLS_KEY_FILE, value: /run/secrets/tls/tls.key}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The environment of gateways, and of the check before them. */}}
{{- define "headgate.gatewayEnv" -}}
{{ include "headgate.env" . }}
- {name: HEADGATE_HTTP__RELOAD_POLL_MS, value: {{ int .Values.gateway.reloadPollMs | quote }}}
- {name: HEADGATE_HTTP__SHUTDOWN_DELAY_MS, value: {{ mul 1000 .Values.gateway.lameDuckSeconds | quote }}}
- {name: HEADGATE_HTTP__DRAIN_TIMEOUT_MS, value: {{ mul 1000 .Values.gateway.drainSeconds | quote }}}
{{- if .Values.monitor.enabled }}
- {name: HEADGATE_MONITOR__URL, value: "{{ include "headgate.scheme" . | lower }}://{{ include "headgate.name" . }}-monitor:9096"}
{{- end }}
{{- end }}

{{/* The container that serves the metrics in the volume `figures`. */}}
{{- define "headgate.exporter" -}}
- name: figures
  image: {{ .Values.textfileExporter.image }}
  args:
    - --collector.disable-defaults
    - --collector.textfile
    - --collector.textfile.directory=/figures
  ports: [{name: metrics, containerPort: 9100}]
  {{- include "headgate.container" . | nindent 2 }}
  resources:
    requests: {cpu: 10m, memory: 32Mi}
    limits: {memory: 64Mi}
  volumeMounts:
    - {name: figures, mountPath: /figures, readOnly: true}
{{- end }}
