package postgresuser

// PostgreSQL asks for a user on a PostgreSQL instance.
type PostgreSQL struct {
	// The instance as the team named it. It must exist in the application's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")`,message="instance must be the name of an instance: lower-case letters, digits and '-'"
	Instance string `json:"instance"`

	// The Secret to write to, in the application's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}
