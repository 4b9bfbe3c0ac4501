{{/* The beginning of all names. */}}
{{- define "windlass.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "windlass.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* What selects the pods of a process: (list root component). */}}
{{- define "windlass.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of an object: (list root component). */}}
{{- define "windlass.labels" -}}
{{- $root := index . 0 -}}
{{ include "windlass.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: windlass
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* An object of a file, with labels: (list root component object). */}}
{{- define "windlass.object" -}}
{{- $object := index . 2 -}}
{{- $labels := include "windlass.labels" (list (index . 0) (index . 1)) | fromYaml -}}
{{- $_ := set $object.metadata "labels" (merge (dict) $labels (default (dict) $object.metadata.labels)) -}}
{{ toYaml $object }}
{{- end }}

{{/* Annotations of an object, if there are any: (list indent annotations). */}}
{{- define "windlass.annotations" -}}
{{- with (index . 1) }}
{{- printf "annotations:\n%s" (toYaml . | indent 2) | nindent (index $ 0) }}
{{- end }}
{{- end }}
