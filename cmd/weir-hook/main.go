// Command weir-hook is `weir check --hook` as a small program that starts fast, for coding agents.
// `weir check --hook-config` names it if it is in the folder of weir.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"weir/cmd/internal/certificates"
	"weir/cmd/internal/hook"
)

// version and revision are set by the linker, as those of weir are.
var version, revision string

func main() {
	debug.SetGCPercent(-1) // it is over before there is anything to collect
	server := flag.String("server", "", "ask the weir that runs at this `URL` (WEIR_SERVER, else "+hook.DefaultServer+")")
	tokenFile := flag.String("token-file", "", "`FILE` with the token (WEIR_TOKEN_FILE)")
	caFile := flag.String("ca-file", "", "verify its certificate by the authorities in `FILE` (WEIR_CA_FILE, else the system's)")
	certFile := flag.String("cert-file", "", "send the certificate in `FILE` (WEIR_CERT_FILE)")
	keyFile := flag.String("key-file", "", "`FILE` with the key of that certificate (WEIR_KEY_FILE)")
	printVersion := flag.Bool("version", false, "print the version and the commit")
	closed := flag.Bool("closed", false, "refuse the use of tools when weir does not answer")
	noTokens := flag.Bool("no-tokens", false, "do not read the tokens of model calls from the transcript of the agent")
	// Coding agents take the code 2, with which flag ends by itself, for a refusal.
	flag.CommandLine.Init("weir-hook", flag.ContinueOnError)
	if err := flag.CommandLine.Parse(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		os.Exit(1)
	}
	if *printVersion {
		_, _ = fmt.Println("weir-hook", cmp.Or(version, "(devel)"), revision)
		return
	}
	s := hook.Server{URL: cmp.Or(*server, os.Getenv("WEIR_SERVER"), hook.DefaultServer), Closed: *closed, Silent: *noTokens}
	if !strings.Contains(s.URL, "://") {
		s.URL = "http://" + s.URL
	}
	s.URL = strings.TrimRight(s.URL, "/")
	if file := cmp.Or(*tokenFile, os.Getenv("WEIR_TOKEN_FILE")); file != "" {
		// Without its token weir does not answer, and what follows from that is decided there.
		text, err := os.ReadFile(file)
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "weir-hook:", err)
		}
		token, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n") // a second line is for rotation
		s.Token = strings.TrimSpace(token)
	}
	trust := certificates.Client{Authorities: cmp.Or(*caFile, os.Getenv("WEIR_CA_FILE")), Certificate: cmp.Or(*certFile, os.Getenv("WEIR_CERT_FILE")), Key: cmp.Or(*keyFile, os.Getenv("WEIR_KEY_FILE"))}
	if transport, err := trust.Transport(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "weir-hook:", err) // who is not trusted is one who does not answer
	} else {
		s.Transport = transport
	}
	code, err := hook.Run(context.Background(), s, os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "weir-hook:", err)
	}
	os.Exit(code)
}
