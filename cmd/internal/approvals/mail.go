package approvals

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"weir/cmd/internal/switchfile"
	"weir/sink/webhook"
)

// implicitTLS is the port on which a connection begins with TLS.
const implicitTLS = "465"

// mail sends a message to all addresses of a tier. The server takes it for all of them or for none.
func mail(ctx context.Context, s *switchfile.SMTP, to []string, id string, q *webhook.Question, at time.Time) error {
	body, err := letter(s.From, to, id, q, at)
	if err != nil {
		return err
	}
	c, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Mail(s.From); err != nil {
		return err
	}
	for _, address := range to {
		if err := c.Rcpt(address); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the message is taken
	return nil
}

// dial opens a conversation, protected by TLS unless the settings say plain.
func dial(ctx context.Context, s *switchfile.SMTP) (*smtp.Client, error) {
	host, port, err := net.SplitHostPort(s.Server)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.Server)
	if err != nil {
		return nil, err
	}
	if until, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(until)
	}
	secure := &tls.Config{ServerName: host, RootCAs: s.Roots, MinVersion: tls.VersionTLS12}
	if port == implicitTLS && !s.Plain {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := protect(c, s, secure, port); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func protect(c *smtp.Client, s *switchfile.SMTP, secure *tls.Config, port string) error {
	if err := c.Hello("localhost"); err != nil {
		return err
	}
	if port != implicitTLS && !s.Plain {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return fmt.Errorf("%s offers no STARTTLS: links are secrets; set smtp.plain only in a network that you trust", s.Server)
		}
		if err := c.StartTLS(secure); err != nil {
			return err
		}
	}
	if s.User == "" {
		return nil
	}
	return c.Auth(smtp.PlainAuth("", s.User, s.Password, secure.ServerName))
}

// letter is a message as text and as HTML.
func letter(from string, to []string, id string, q *webhook.Question, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	parts := multipart.NewWriter(&out)
	domain := from[strings.LastIndexByte(from, '@')+1:]
	subject := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, q.Title+": "+q.Subject())
	var head bytes.Buffer
	for _, line := range [][2]string{
		{"From", "weir <" + from + ">"}, {"To", strings.Join(to, ", ")}, {"Subject", mime.QEncoding.Encode("utf-8", subject)}, {"Date", at.Format(time.RFC1123Z)},
		{"Message-ID", "<" + id + "@" + domain + ">"}, {"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"},
		{"Content-Type", "multipart/alternative; boundary=" + parts.Boundary()},
	} {
		fmt.Fprintf(&head, "%s: %s\r\n", line[0], line[1])
	}
	head.WriteString("\r\n")
	html, err := q.HTML()
	if err != nil {
		return nil, err
	}
	for _, part := range []struct{ kind, encoding, text string }{{"text/plain", "quoted-printable", q.Plain()}, {"text/html", "base64", html}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {part.kind + "; charset=utf-8"}, "Content-Transfer-Encoding": {part.encoding}})
		if err != nil {
			return nil, err
		}
		if part.encoding == "base64" {
			code := base64.StdEncoding.EncodeToString([]byte(part.text))
			for len(code) > 0 {
				n := min(76, len(code))
				fmt.Fprintf(w, "%s\r\n", code[:n])
				code = code[n:]
			}
			continue
		}
		q := quotedprintable.NewWriter(w)
		if _, err := q.Write([]byte(part.text)); err != nil {
			return nil, err
		}
		if err := q.Close(); err != nil {
			return nil, err
		}
	}
	if err := parts.Close(); err != nil {
		return nil, err
	}
	return append(head.Bytes(), out.Bytes()...), nil
}
