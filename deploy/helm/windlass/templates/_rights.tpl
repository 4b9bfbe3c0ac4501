{{/*
Who runs, and with which rights: (dict root component account namespace rights annotations).

Rights come from files/rbac, which are deploy/rbac: made from the lists next to the code, and used to the last of them. What is
put in here is where the process runs, as whom, and what the release and its own objects are called.
*/}}
{{- define "windlass.rights" -}}
{{- $root := .root }}
{{- $given := . }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .account }}
  namespace: {{ .namespace }}
  labels:
    {{- include "windlass.labels" (list $root .component) | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- if $root.Values.rbac.create }}
{{- range .rights }}
{{- range (splitList "\n---\n" ($root.Files.Get (printf "files/rbac/%s.yaml" .))) }}
{{- $object := fromYaml . }}
{{- if ne $object.kind "ServiceAccount" }}
{{- $_ := set $object.metadata "name" (printf "%s-%s" (include "windlass.fullname" $root) (trimPrefix "windlass-" $object.metadata.name)) }}
{{- if $object.metadata.namespace }}
{{- $moved := dict "windlass-system" $given.namespace "eksa-system" $root.Values.eksAnywhere.namespace
      "machine-pools" $root.Values.operator.namespace }}
{{- $_ := set $object.metadata "namespace" (default $object.metadata.namespace (get $moved $object.metadata.namespace)) }}
{{- end }}
{{- if $object.roleRef }}
{{- $_ := set $object.roleRef "name" $object.metadata.name }}
{{- $_ := set $object "subjects" (list (dict "kind" "ServiceAccount" "name" $given.account "namespace" $given.namespace)) }}
{{- end }}
{{- range $object.rules }}
{{- if and .resourceNames (eq $given.component "autoscaler") }}
{{- $_ := set . "resourceNames" (include "windlass.renamed" (list $root .resourceNames) | fromYamlArray) }}
{{- end }}
{{- end }}
---
{{ include "windlass.object" (list $root $given.component $object) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Names of the autoscaler's own objects, where its flags give them others: (list root names). */}}
{{- define "windlass.renamed" -}}
{{- $flags := (index . 0).Values.autoscaler.flags }}
{{- $flag := dict "cluster-autoscaler" "leader-elect-resource-name"
      "cluster-autoscaler-status" "status-config-map-name" "windlass-memory" "memory-config-map" }}
{{- range (index . 1) }}
{{- $first := regexReplaceAll "^(windlass-memory)-[0-9]+$" . "${1}" }}
- {{ get $flags (get $flag $first) | default $first }}{{ trimPrefix $first . }}
{{- end }}
{{- end }}
