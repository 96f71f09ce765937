// Command registry is the registry of distribution with files as its storage and the two ways to log in that need no
// server beside it; the whole one would need the libraries of three clouds.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/silly"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	if registry.RootCmd.Execute() != nil {
		os.Exit(1) // it has said why
	}
}
