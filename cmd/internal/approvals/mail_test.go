package approvals

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/cmd/internal/switchfile"
	"weir/events"
	"weir/sink/webhook"
)

// relay is a server of mail that wants TLS and a password. It takes one conversation and returns what it got.
func relay(t *testing.T, begins bool) (server string, roots *x509.CertPool, got chan []string) {
	t.Helper()
	web := httptest.NewUnstartedServer(nil) // has a certificate for 127.0.0.1
	web.StartTLS()
	t.Cleanup(web.Close)
	roots = x509.NewCertPool()
	roots.AddCert(web.Certificate())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got = make(chan []string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		got <- converse(c, &tls.Config{Certificates: web.TLS.Certificates}, begins)
	}()
	return l.Addr().String(), roots, got
}

// converse takes a mail. offers says that STARTTLS is offered.
func converse(c net.Conn, secure *tls.Config, offers bool) (lines []string) {
	in := bufio.NewReader(c)
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 relay.example")
	for data := false; ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return lines
		}
		line = strings.TrimRight(line, "\r\n")
		lines = append(lines, line)
		word, _, _ := strings.Cut(strings.ToUpper(line), " ")
		_, inTLS := c.(*tls.Conn)
		switch {
		case data && line == ".":
			data = false
			say("250 taken")
		case data:
		case word == "EHLO" && offers && !inTLS:
			say("250-relay.example")
			say("250 STARTTLS")
		case word == "EHLO":
			say("250-relay.example")
			say("250 AUTH PLAIN")
		case word == "STARTTLS":
			say("220 go on")
			c = tls.Server(c, secure)
			in = bufio.NewReader(c)
		case word == "AUTH" && strings.HasSuffix(line, base64.StdEncoding.EncodeToString([]byte("\x00weir\x00open sesame"))):
			say("235 welcome")
		case word == "DATA":
			data = true
			say("354 go on")
		case word == "MAIL" || word == "RCPT":
			say("250 ok")
		case word == "QUIT":
			say("221 bye")
			return lines
		default:
			say("502 no")
		}
	}
}

func TestMailIsProtected(t *testing.T) {
	t.Parallel()
	q := &webhook.Question{Title: "A flow waits\r\nBcc: eve@example.com", Text: "<b>ünïcode</b>", Approve: "https://weir.example/v1/approvals/a", Deny: "https://weir.example/v1/approvals/b"}
	q.Fact("Flow", "f<i>\r\nTo: eve@example.com")
	d := &Desk{Settings: &switchfile.Approvals{}, Now: func() events.Stamp { return 1 << 40 }}
	server, roots, got := relay(t, true)
	d.Settings.SMTP = &switchfile.SMTP{Server: server, From: "weir@example.com", User: "weir", Password: "open sesame", Roots: roots}
	if err := mail(t.Context(), d.Settings.SMTP, []string{"ann@example.com"}, "id-1", q, d.Now().Time()); err != nil {
		t.Fatal(err)
	}
	lines := <-got
	text := strings.Join(lines, "\n")
	for _, want := range []string{"STARTTLS", "RCPT TO:<ann@example.com>", "Message-ID: <id-1@example.com>", "To: ann@example.com", "Content-Type: text/html; charset=utf-8"} {
		if !strings.Contains(text, want) {
			t.Errorf("the conversation has no %q:\n%s", want, text)
		}
	}
	for i, line := range lines[:min(20, len(lines))] {
		if strings.HasPrefix(line, "Bcc:") || strings.HasPrefix(line, "To: eve") {
			t.Errorf("line %d is a header of another's making: %s", i, line)
		}
	}
	html, err := q.HTML()
	if err != nil || strings.Contains(html, "<i>") || strings.Contains(html, "<b>") {
		t.Errorf("texts of others are marks of HTML: %s, %v", html, err)
	}
	// A certificate of others, and a server without TLS, get no mail.
	for _, offers := range []bool{true, false} {
		server, _, got := relay(t, offers)
		d.Settings.SMTP = &switchfile.SMTP{Server: server, From: "weir@example.com", User: "weir", Password: "open sesame"}
		if err := mail(t.Context(), d.Settings.SMTP, []string{"ann@example.com"}, "id-2", q, d.Now().Time()); err == nil {
			t.Errorf("a mail without protection is sent (STARTTLS %v)", offers)
		}
		if text := strings.Join(<-got, "\n"); strings.Contains(text, "MAIL") || strings.Contains(text, "AUTH") {
			t.Errorf("the server got %s", text)
		}
	}
}
