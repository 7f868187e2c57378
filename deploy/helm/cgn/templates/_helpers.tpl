{{- define "cgn.name" -}}
{{ printf "%s-%s" .root.Release.Name .component | trunc 60 | trimSuffix "-" }}
{{- end -}}

{{- define "cgn.selector" -}}
app.kubernetes.io/part-of: cgn
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "cgn.labels" -}}
{{ include "cgn.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{/* The file, found by every daemon; a changed one starts the pods anew. */}}
{{- define "cgn.podMeta" -}}
labels:
  {{- include "cgn.labels" . | nindent 2 }}
annotations:
  checksum/config: {{ .root.Values.config | sha256sum }}
{{- end -}}

{{- define "cgn.pod" -}}
serviceAccountName: {{ .root.Release.Name }}-cgn
terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Variables win over the file: what Kubernetes decides. */}}
{{- define "cgn.env" -}}
- name: CGN__CLUSTER__STATE_BACKEND
  value: kubernetes
- name: CGN__CLUSTER__KUBERNETES_NAMESPACE
  value: {{ .root.Release.Namespace }}
- name: CGN__CLUSTER__ADVERTISE_HOST
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end -}}
