{{/*
Who runs, and with which rights: (dict root component account namespace rights serviceAccount).

Rights come from files/rbac, which are deploy/rbac: made from the lists next to the code, and used to the last of them. What is
put in here is where the process runs, as whom, and what the release and its own objects are called.
*/}}
{{- define "windlass.rights" -}}
{{- $root := .root }}
{{- $given := . }}
{{- $serviceAccount := .serviceAccount | default (dict "create" true "automountServiceAccountToken" true) }}
{{- if $serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .account }}
  namespace: {{ .namespace }}
  labels:
    {{- include "windlass.labels" (list $root .component) | nindent 4 }}
  {{- include "windlass.annotations" (list 2 $serviceAccount.annotations) }}
{{- if not $serviceAccount.automountServiceAccountToken }}
automountServiceAccountToken: false
{{- end }}
{{- end }}
{{- if $root.Values.rbac.create }}
{{- range $name := .rights }}
{{- range (splitList "\n---\n" ($root.Files.Get (printf "files/rbac/%s.yaml" $name))) }}
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
{{- if eq $name "shadow" }}{{ include "windlass.readHere" (list $root $object) }}{{ end }}
{{- range $object.rules }}
{{- if and .resourceNames (eq $given.component "autoscaler") }}
{{- $_ := set . "resourceNames" (include "windlass.renamed" (list $root .resourceNames) | fromYamlArray) }}
{{- end }}
{{- end }}
{{- include "windlass.granted" (list $root $given.component $object) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Leaves a role that only reads what is in this cluster, where workload and management cluster are two: (list root role). */}}
{{- define "windlass.readHere" -}}
{{- $found := (index . 0).Values.autoscaler.kubeconfigs }}
{{- $role := index . 1 }}
{{- if and $role.rules (or $found.workload.secret $found.management.secret) }}
{{- $rules := list }}
{{- range $role.rules }}
{{- $isOfClusterApi := hasSuffix "cluster.x-k8s.io" (first .apiGroups) }}
{{- if eq $isOfClusterApi (empty $found.management.secret) }}{{ $rules = append $rules . }}{{ end }}
{{- end }}
{{- $_ := set $role "rules" $rules }}
{{- end }}
{{- end }}

{{/* A role or a binding, in each namespace where it is not of the whole cluster: (list root component object). */}}
{{- define "windlass.granted" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- $object := index . 2 }}
{{- with $root.Values.rbac.annotations }}{{ $_ := set $object.metadata "annotations" . }}{{ end }}
{{- $namespaces := list "" }}
{{- if and (eq $component "autoscaler") (hasPrefix "Cluster" $object.kind) }}
{{- $namespaces = include "windlass.namespaces" $root | fromYamlArray }}
{{- end }}
{{- range $namespaces }}
{{- if . }}
{{- $_ := set $object "kind" (trimPrefix "Cluster" $object.kind) }}
{{- $_ := set $object.metadata "namespace" . }}
{{- if $object.roleRef }}{{ $_ := set $object.roleRef "kind" "Role" }}{{ end }}
{{- end }}
---
{{ include "windlass.object" (list $root $component $object) }}
{{- end }}
{{- end }}

{{/* Namespaces in which the autoscaler has its rights on Cluster API; an empty name is the whole cluster. */}}
{{- define "windlass.namespaces" -}}
{{- if .Values.rbac.clusterScoped }}
- ""
{{- else }}
{{- if not .Values.autoscaler.kubeconfigs.workload.secret }}
{{- fail "rbac.clusterScoped: found false without autoscaler.kubeconfigs.workload.secret, expected both: nodes and pods are of the whole cluster" }}
{{- end }}
{{- $found := list }}
{{- range .Values.autoscaler.discovery }}
{{- $namespace := regexFind "namespace=[^,]+" . | trimPrefix "namespace=" }}
{{- if not $namespace }}
{{- fail (printf "autoscaler.discovery: found %s, expected namespace=… in it, since rbac.clusterScoped is false" .) }}
{{- end }}
{{- $found = append $found $namespace }}
{{- end }}
{{- toYaml ($found | default (list .Release.Namespace) | uniq) }}
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
