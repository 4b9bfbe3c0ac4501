{{/*
Every process that is run, as a list: where, as whom, with which words, and which files of rights it takes. All that a
process has in common is made from this list.
*/}}
{{- define "windlass.processes" -}}
{{- $full := include "windlass.fullname" . -}}
{{- $values := .Values -}}
{{- if $values.autoscaler.enabled }}
{{ include "windlass.autoscaler" . }}
{{- end }}
{{- $general := list }}{{- $openshift := list }}
{{- range $values.operator.controllers }}
{{- if has . (list "machine_pool" "eks_anywhere" "lattice") }}{{ $general = append $general . }}{{ end }}
{{- if has . (list "cluster_autoscaler" "machine_autoscaler") }}{{ $openshift = append $openshift . }}{{ end }}
{{- end }}
{{- if $general }}
- component: operator
  port: 8080
  health: /healthz
  name: {{ $full }}-operator
  namespace: {{ .Release.Namespace }}
  account: {{ include "windlass.account" (list "operator" $values.operator.serviceAccount $full) }}
  lease: windlass-operator
  controllers: {{ toJson $general }}
  rights: [operator
    {{- if has "machine_pool" $general }}
    {{- $scope := empty $values.operator.namespace | ternary "" "-namespaced" }}, machine-pool{{ $scope }}, machine-pool-providers{{ $scope }}{{ end }}
    {{- if has "eks_anywhere" $general }}, eks-anywhere{{ end }}
    {{- if has "lattice" $general }}, lattice{{ if $values.lattice.deployAutoscaler }}, lattice-deploy-autoscaler{{ end }}{{ end }}]
  flags:
    {{- with $values.operator.namespace }}
    {{- if ne (len $general) 1 }}{{ fail "operator.namespace: found other controllers besides machine_pool, expected it alone" }}{{ end }}
    {{- if not (has "machine_pool" $general) }}{{ fail "operator.namespace: found no machine_pool, expected it" }}{{ end }}
    - --namespace={{ . }}
    {{- end }}
    {{- if has "eks_anywhere" $general }}
    - --eks-anywhere-namespace={{ $values.eksAnywhere.namespace }}
    {{- end }}
    {{- if has "lattice" $general }}
    - --{{ if not $values.lattice.deployAutoscaler }}no-{{ end }}lattice-deploy-autoscaler
    - --lattice-autoscaler-image={{ include "windlass.image" . }}
    - --lattice-autoscaler-discovery={{ $values.lattice.discovery }}
    {{- end }}
{{- end }}
{{- if $openshift }}
{{- $own := has "cluster_autoscaler" $openshift | ternary "cluster-autoscaler-operator" "machine-autoscaler" }}
- component: {{ $own }}
  port: 8080
  health: /healthz
  name: {{ $own }}
  namespace: openshift-machine-api
  account: {{ $own }}
  lease: {{ $own }}{{ if has "cluster_autoscaler" $openshift }}-leader{{ end }}
  controllers: {{ toJson $openshift }}
  webhooks: {{ $values.openshift.webhooks }}
  rights: [
    {{- if has "cluster_autoscaler" $openshift }}cluster-autoscaler-operator{{ end }}
    {{- if eq (len $openshift) 2 }}, {{ end }}
    {{- if has "machine_autoscaler" $openshift }}machine-autoscaler{{ end }}]
  flags:
    {{- if has "cluster_autoscaler" $openshift }}
    - --openshift-autoscaler-image={{ include "windlass.image" . }}
    {{- end }}
    {{- with $values.openshift.releaseVersion }}
    - --openshift-release-version={{ . }}
    {{- end }}
    {{- if $values.openshift.webhooks }}
    - --webhook-address=:8443
    - --webhook-cert-dir=/etc/windlass/webhooks
    {{- end }}
{{- end }}
{{- if has "machineset_sync" $values.operator.controllers }}
- component: machineset-sync
  port: 8080
  health: /healthz
  name: machineset-sync
  namespace: openshift-cluster-api
  account: capi-controllers
  lease: windlass-operator
  controllers: [machineset_sync]
  rights: [machineset-sync]
  flags: []
{{- end }}
{{- end }}

{{- define "windlass.autoscaler" -}}
{{- $full := include "windlass.fullname" . -}}
{{- $autoscaler := .Values.autoscaler -}}
{{- $acts := eq $autoscaler.mode "act" -}}
- component: autoscaler
  port: 8085
  health: /health-check
  name: {{ $full }}-autoscaler
  namespace: {{ .Release.Namespace }}
  account: {{ include "windlass.account" (list "autoscaler" $autoscaler.serviceAccount $full) }}
  rights: [
    {{- if not $acts }}{{ if not (and $autoscaler.kubeconfigs.workload.secret $autoscaler.kubeconfigs.management.secret) }}shadow{{ end }}
    {{- else }}
    {{- $rights := list }}
    {{- if not $autoscaler.kubeconfigs.workload.secret }}
    {{- $rights = append $rights "autoscaler" }}
    {{- if $autoscaler.provisioningRequests }}{{ $rights = append $rights "autoscaler-provisioning-requests" }}{{ end }}
    {{- if $autoscaler.capacityBuffers }}{{ $rights = append $rights "autoscaler-capacity-buffers" }}{{ end }}
    {{- if $autoscaler.capacityQuotas }}{{ $rights = append $rights "autoscaler-capacity-quotas" }}{{ end }}
    {{- if $autoscaler.priorities }}{{ $rights = append $rights "autoscaler-priority-expander" }}{{ end }}
    {{- end }}
    {{- if not $autoscaler.kubeconfigs.management.secret }}{{ $rights = append $rights "autoscaler-clusterapi" }}{{ end }}
    {{- join ", " $rights }}
    {{- end }}]
  flags:
    - --cloud-provider=clusterapi
    {{- /* Its Lease and ConfigMaps are in the workload cluster, which need not have the namespace of the release. */}}
    - --namespace={{ empty $autoscaler.kubeconfigs.workload.secret | ternary .Release.Namespace "kube-system" }}
    - --address=:8085
    {{- if not $acts }}
    - --{{ $autoscaler.mode }}
    - --memory-config-map=
    {{- end }}
    {{- with $autoscaler.kubeconfigs.workload.secret }}
    - --kubeconfig=/etc/windlass/workload/{{ $autoscaler.kubeconfigs.workload.key }}
    {{- end }}
    {{- if $autoscaler.kubeconfigs.management.secret }}
    - --cloud-config=/etc/windlass/management/{{ $autoscaler.kubeconfigs.management.key }}
    {{- else if $autoscaler.kubeconfigs.workload.secret }}
    - --clusterapi-cloud-config-authoritative=true
    {{- end }}
    {{- range $autoscaler.discovery }}
    - --node-group-auto-discovery={{ . }}
    {{- else }}
    {{- if not .Values.rbac.clusterScoped }}
    - --node-group-auto-discovery=clusterapi:namespace={{ .Release.Namespace }}
    {{- end }}
    {{- end }}
    {{- if $autoscaler.provisioningRequests }}
    - --enable-provisioning-requests=true
    {{- end }}
    {{- if $autoscaler.capacityBuffers }}
    - --capacity-buffer-controller-enabled=true
    - --capacity-buffer-pod-injection-enabled=true
    {{- end }}
    {{- if $autoscaler.capacityQuotas }}
    - --capacity-quotas-enabled=true
    {{- end }}
    {{- if and $autoscaler.priorities (not (hasKey $autoscaler.flags "expander")) }}
    - --expander=priority
    {{- end }}
{{- end }}

{{/* Whom a process runs as: (list "autoscaler" or "operator" serviceAccount fullname). */}}
{{- define "windlass.account" -}}
{{- $account := index . 1 }}
{{- if and (not $account.create) (not $account.name) }}
{{- fail (printf "%s.serviceAccount.name: found none, expected the name of an account that exists, since create is false" (index . 0)) }}
{{- end }}
{{- $account.name | default (printf "%s-%s" (index . 2) (index . 0)) }}
{{- end }}
