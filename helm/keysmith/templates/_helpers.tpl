{{/* The name of objects. */}}
{{- define "keysmith.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels by which Pods are selected. */}}
{{- define "keysmith.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "keysmith.labels" -}}
{{ include "keysmith.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
application.giantswarm.io/team: {{ index .Chart.Annotations "io.giantswarm.application.team" | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "keysmith.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "keysmith.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "keysmith.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- $name := .Values.image.repository -}}
{{- if $registry }}{{ $name = printf "%s/%s" (trimSuffix "/" $registry) $name }}{{ end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $name .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the token, and the ConfigMap or Secret with more CAs. */}}
{{- define "keysmith.tokenSecret" -}}
{{- .Values.aiven.existingSecret.name | default (printf "%s-aiven" (include "keysmith.fullname" .)) -}}
{{- end -}}

{{- define "keysmith.hasCA" -}}
{{- with .Values.caBundle }}{{ if or .pem .configMap .secret }}true{{ end }}{{ end -}}
{{- end -}}

{{/* The port of an address such as https://host:443 or https://host, whose host may be in brackets. */}}
{{- define "keysmith.port" -}}
{{- $url := urlParse . -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "80" "443" (eq $url.scheme "http")) -}}
{{- end -}}

{{/* The host of such an address. */}}
{{- define "keysmith.host" -}}
{{- regexReplaceAll ":[0-9]+$" (urlParse .).host "" -}}
{{- end -}}

{{/* The ports that the proxy and the Aiven API listen on, as a list in JSON. */}}
{{- define "keysmith.outsidePorts" -}}
{{- $ports := list -}}
{{- if .Values.proxy.https -}}
{{- $ports = append $ports (include "keysmith.port" .Values.proxy.https | int) -}}
{{- else -}}
{{- $ports = append $ports (include "keysmith.port" .Values.aiven.url | int) -}}
{{- end -}}
{{- with .Values.proxy.http }}{{ $ports = append $ports (include "keysmith.port" . | int) }}{{ end -}}
{{- uniq $ports | toJson -}}
{{- end -}}

{{/* What the schema cannot say in words that help. */}}
{{- define "keysmith.validate" -}}
{{- with .Values.aiven -}}
{{- if and (not .token) (not .existingSecret.name) -}}
{{- fail "a token of the Aiven API is missing: set aiven.token, or aiven.existingSecret.name to a Secret that holds one" -}}
{{- end -}}
{{- if and .token .existingSecret.name -}}
{{- fail "give aiven.token or aiven.existingSecret.name, not both" -}}
{{- end -}}
{{- if not (or .projects .mainProject) -}}
{{- fail "no Aiven project is named: set aiven.projects, as in --set 'aiven.projects={dev}'" -}}
{{- end -}}
{{- end -}}
{{- with .Values.caBundle -}}
{{- if gt (len (compact (list .pem .configMap .secret))) 1 -}}
{{- fail "give only one of caBundle.pem, caBundle.configMap and caBundle.secret" -}}
{{- end -}}
{{- if and .pem (not (contains "-----BEGIN CERTIFICATE-----" .pem)) -}}
{{- fail "caBundle.pem must hold certificates in PEM" -}}
{{- end -}}
{{- end -}}
{{- range $name := list "http" "https" -}}
{{- if not (regexMatch "^(https?://[^\\s/]+/?)?$" (index $.Values.proxy $name)) -}}
{{- fail (printf "proxy.%s must be an address such as http://proxy.example.com:3128" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
