// Command certificates makes what a control plane on the loopback address authenticates with: one authority, a serving
// certificate, a client certificate for each user, and the key pair of service accounts.
//
//	certificates FOLDER [ADDRESS | NODE=ADDRESS ...]
//
// Addresses are among those that are served. A node gets the certificate of its kubelet as a client.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// users maps a file name to the user and the group that the API server reads in the certificate.
var users = map[string]pkix.Name{
	"admin":              {CommonName: "operator", Organization: []string{"system:masters"}},
	"controller-manager": {CommonName: "system:kube-controller-manager"},
	"scheduler":          {CommonName: "system:kube-scheduler"},
	"kubelet-client":     {CommonName: "kube-apiserver", Organization: []string{"system:masters"}},
	"kube-proxy":         {CommonName: "system:kube-proxy"},
	"nobody":             {CommonName: "nobody"},
}

type authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: certificates FOLDER [ADDRESS | NODE=ADDRESS ...]")
	}
	ca := newAuthority(os.Args[1])
	server := template(pkix.Name{CommonName: "kube-apiserver"})
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}
	for _, argument := range os.Args[2:] {
		name, address, isNode := strings.Cut(argument, "=")
		if isNode {
			users[name] = pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}
			server.DNSNames = append(server.DNSNames, name)
		} else {
			address = name
		}
		server.IPAddresses = append(server.IPAddresses, net.ParseIP(address))
	}
	ca.issue("server", server)
	for name, user := range users {
		client := template(user)
		client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		ca.issue(name, client)
	}
	accounts := newKey()
	ca.writeKey("service-accounts.key", accounts)
	ca.write("service-accounts.pub", "PUBLIC KEY", must(x509.MarshalPKIXPublicKey(accounts.Public())))
}

func newAuthority(folder string) *authority {
	key := newKey()
	root := template(pkix.Name{CommonName: "realcluster"})
	root.IsCA, root.BasicConstraintsValid = true, true
	root.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	signed := must(x509.CreateCertificate(rand.Reader, root, root, key.Public(), key))
	ca := &authority{folder, must(x509.ParseCertificate(signed)), key}
	ca.write("ca.crt", "CERTIFICATE", signed)
	ca.writeKey("ca.key", key)
	return ca
}

func (ca *authority) issue(name string, wanted *x509.Certificate) {
	key := newKey()
	ca.write(name+".crt", "CERTIFICATE", must(x509.CreateCertificate(rand.Reader, wanted, ca.certificate, key.Public(), ca.key)))
	ca.writeKey(name+".key", key)
}

func (ca *authority) writeKey(name string, key *ecdsa.PrivateKey) {
	ca.write(name, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
}

func (ca *authority) write(name, kind string, der []byte) {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(filepath.Join(ca.folder, name), text, 0o600); err != nil {
		log.Fatal(err)
	}
}

func template(subject pkix.Name) *x509.Certificate {
	serial := must(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(7 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey() *ecdsa.PrivateKey {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
