// A Terraform provider with the schemas of hashicorp/aws and others, which makes files in a folder instead of resources.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
)

func main() {
	program := strings.TrimPrefix(filepath.Base(os.Args[0]), "terraform-provider-")
	name, _, _ := strings.Cut(program, "_")
	provider := &server{
		schema: loadSchemas()[name], behaviour: loadBehaviour(), account: openAccount(), defaultTags: fields{},
	}
	serve := func() tfprotov5.ProviderServer { return provider }
	if err := tf5server.Serve("registry.terraform.io/hashicorp/"+name, serve); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
