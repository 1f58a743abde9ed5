//go:build linux

package gateways

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"weir/cmd/weirtest"
)

// TestFirstSteps runs nginx with the limits and the configuration of the page, on other ports.
func TestFirstSteps(t *testing.T) {
	nginx := program(t, "nginx")
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
		if found == nil {
			t.Fatalf("the page has no block of %s", language)
		}
		return string(found[1])
	}
	p := startWeir(t, build(t), block("yaml"))
	tools := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(tools.Close)
	p.Listen = weirtest.Port(t)
	text := block("nginx")
	for from, to := range map[string]string{"127.0.0.1:8088": "127.0.0.1:" + p.Listen, "127.0.0.1:8080": "127.0.0.1:" + p.Weir, "127.0.0.1:9000": tools.Listener.Addr().String(),
		// Folders that the package of a system would have made.
		"http {\n": "http {\n access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n"} {
		if !strings.Contains(text, from) {
			t.Fatalf("the configuration of the page has no %q", from)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	path := filepath.Join(p.Folder, "nginx.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &client{T: t, url: "http://127.0.0.1:" + p.Listen, hits: new(atomic.Int64), weir: &p}
	c.ready(process(t, nginx, "-p", p.Folder, "-e", "stderr", "-c", path, "-g", "daemon off; master_process off; pid "+p.Folder+"/nginx.pid;"))
	for n, want := range []int{200, 200, 200, 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/?call="+string(rune('1'+n)), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Correlation-Id", "first")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("call %d is answered with %d, want %d", n+1, resp.StatusCode, want)
		}
	}
}
