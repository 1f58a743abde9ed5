// Package gateway configures real gateways before tools, with the configurations that users copy. Only tests and the
// programs that try weir import it.
package gateway

import (
	"bytes"
	"os"
	"path/filepath"
	"text/template"
)

// Settings are what a configuration is filled in with.
type Settings struct {
	Listen, Weir, GRPC, Tools string // ports on loopback
	Folder                    string // for the files of the gateway
	Users                     []User
	Closed                    bool // a gateway that can do so refuses requests while weir does not answer
}

// User is a user that a gateway knows, with the password as its files hold it.
type User struct{ Name, SHA, Bcrypt string }

// Password is that of all users. Its hashes are weak, so that tests do not wait for them.
const Password = "secret"

// Users returns users with these names.
func Users(names ...string) (users []User) {
	for _, name := range names {
		users = append(users, User{name, "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "$2a$04$hPbUAdo35x3HBX.wRd./1uYHRQPp0VJ2QpgoKPeEwDbWwV8Jax0U."})
	}
	return users
}

// Program is a gateway: its file in the folder of programs, and its configuration.
type Program struct {
	Name, File string
	args       func(file string, s *Settings) []string
}

// The gateways of which there are configurations.
var (
	Envoy     = Program{"envoy", "envoy-grpc.yaml", envoyArgs}
	EnvoyHTTP = Program{"envoy", "envoy-http.yaml", envoyArgs}
	Traefik   = Program{"traefik", "traefik.yaml", func(file string, s *Settings) []string {
		return []string{"--entrypoints.agents.address=127.0.0.1:" + s.Listen, "--providers.file.filename=" + file,
			"--global.checknewversion=false", "--global.sendanonymoususage=false", "--log.level=ERROR"}
	}}
	Caddy = Program{"caddy", "Caddyfile", func(file string, _ *Settings) []string {
		return []string{"run", "--adapter", "caddyfile", "--config", file}
	}}
	Nginx = Program{"nginx", "nginx.conf", func(file string, s *Settings) []string { return []string{"-p", s.Folder, "-c", file} }}
)

func envoyArgs(file string, _ *Settings) []string {
	return []string{"-c", file, "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"}
}

// Configure writes the files of a gateway to its folder, by its configuration in a folder of templates. It returns
// the arguments of the program.
func (p Program) Configure(templates string, s *Settings) (args []string, err error) {
	text, err := template.ParseFiles(filepath.Join(templates, p.File))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Folder, 0o755); err != nil {
		return nil, err
	}
	var users, filled bytes.Buffer
	for _, u := range s.Users {
		users.WriteString(u.Name + ":" + u.SHA + "\n")
	}
	if err := os.WriteFile(filepath.Join(s.Folder, "users"), users.Bytes(), 0o600); err != nil {
		return nil, err
	}
	if err := text.Execute(&filled, s); err != nil {
		return nil, err
	}
	file := filepath.Join(s.Folder, p.File)
	return p.args(file, s), os.WriteFile(file, filled.Bytes(), 0o600)
}
