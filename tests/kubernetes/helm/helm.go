//go:build helm

// Package helm names what `make kubernetes-test` builds, so that go.mod and go.sum lock it.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
