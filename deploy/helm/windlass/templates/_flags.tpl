{{/* A map of flags as words, sorted; a list gives a flag several times. */}}
{{- define "windlass.flags" -}}
{{- range $name, $value := . }}
{{- range (kindIs "slice" $value | ternary $value (list $value)) }}
- {{ printf "--%s=%s" $name (include "windlass.word" .) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The same in the form of Cluster Autoscaler's chart: what follows an underscore repeats a flag, and a null has no value. */}}
{{- define "windlass.extraArgs" -}}
{{- range $name, $value := . }}
{{- $flag := first (splitList "_" $name) }}
{{- if kindIs "invalid" $value }}
- --{{ $flag }}
{{- else }}
- {{ printf "--%s=%s" $flag (include "windlass.word" $value) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* A value as text. Numbers of YAML are floats here; a whole one is written as such, not as 1e+06. */}}
{{- define "windlass.word" -}}
{{- $text := toString . }}
{{- if kindIs "float64" . }}{{ if eq (floor .) . }}{{ $text = int64 . | toString }}{{ end }}{{ end }}
{{- $text }}
{{- end }}

{{/* Names of the flags that are given to a process, by where they are given: (list root "autoscaler" or "operator"). */}}
{{- define "windlass.givenFlags" -}}
{{- $values := get (index . 0).Values (index . 1) }}
{{- $given := dict }}
{{- range $name, $_ := $values.flags }}{{ $_ := set $given (printf "flags.%s" $name) $name }}{{ end }}
{{- range $name, $_ := $values.extraArgs }}
{{- $_ := set $given (printf "extraArgs.%s" $name) (first (splitList "_" $name)) }}
{{- end }}
{{- range $at, $word := $values.customArgs }}
{{- $name := $word | trimPrefix "--" | splitList "=" | first | replace "_" "-" }}
{{- if hasPrefix "--" $word }}{{ $_ := set $given (printf "customArgs[%d]" $at) $name }}{{ end }}
{{- end }}
{{- toYaml $given }}
{{- end }}

{{/* Refuses flags that the process does not have, and names the nearest: (list root "autoscaler" or "operator"). */}}
{{- define "windlass.checkFlags" -}}
{{- $component := index . 1 }}
{{- $known := get ((index . 0).Files.Get "files/flags.yaml" | fromYaml) $component }}
{{- $places := dict }}
{{- range $place, $name := (include "windlass.givenFlags" . | fromYaml) }}
{{- if not (has $name $known) }}
{{- $near := include "windlass.nearest" (list $name $known) }}
{{- fail (printf "%s.%s: there is no flag --%s%s" $component $place $name (empty $near | ternary "" (printf "; did you mean %s?" $near))) }}
{{- end }}
{{- if and (eq $component "operator") (hasKey $places $name) }}
{{- fail (printf "operator.%s: found --%s in operator.%s as well, expected it once" $place $name (get $places $name)) }}
{{- end }}
{{- $_ := set $places $name $place }}
{{- end }}
{{- end }}

{{/* The name with the fewest changes of a letter, if they are at most a third of it: (list name names). */}}
{{- define "windlass.nearest" -}}
{{- $letters := splitList "" (index . 0) }}
{{- $best := max 2 (div (len $letters) 3) | add1 }}{{ $found := "" }}
{{- range $name := (index . 1) }}
{{- $others := splitList "" $name }}
{{- if lt (max (sub (len $letters) (len $others)) (sub (len $others) (len $letters))) $best }}
{{- $row := untilStep 0 (len $others | add1 | int) 1 }}
{{- range $i, $letter := $letters }}
{{- $next := list (add1 $i) }}
{{- range $j, $other := $others }}
{{- $change := add (index $row $j) (ternary 0 1 (eq $letter $other)) }}
{{- $next = append $next (min $change (add1 (index $row (add1 $j))) (add1 (index $next $j))) }}
{{- end }}
{{- $row = $next }}
{{- end }}
{{- if lt (last $row | int64) (int64 $best) }}{{ $best = last $row }}{{ $found = $name }}{{ end }}
{{- end }}
{{- end }}
{{- $found }}
{{- end }}
