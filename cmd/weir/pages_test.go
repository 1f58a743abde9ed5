package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestPagesAreLeftAlone goes through long lists as coding agents do, by calls that differ in a
// number or a name and answers that differ in all but their form: the names of the fields, which come
// with each item, are most of what such an answer says.
func TestPagesAreLeftAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := func(n int) string {
		var s []string
		for range n {
			var w strings.Builder
			for range 2 + r.IntN(3) {
				w.WriteByte("bcdfglmnprst"[r.IntN(12)])
				w.WriteByte("aeiou"[r.IntN(5)])
			}
			s = append(s, w.String())
		}
		return strings.Join(s, " ")
	}
	lines := func(n int, line func(i int) string) string {
		var s strings.Builder
		for i := range n {
			s.WriteString(line(i))
			s.WriteByte('\n')
		}
		return s.String()
	}
	text := func(v any) string {
		p, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	for name, page := range map[string]func(n int) (tool string, input map[string]any, result string){
		"issues by MCP": func(n int) (string, map[string]any, string) {
			var list []any
			for i := range 30 {
				list = append(list, map[string]any{"number": n*30 + i, "title": words(6), "state": "open", "user": map[string]any{"login": words(1), "id": r.IntN(99999), "type": "User"},
					"labels": []any{map[string]any{"id": 1, "name": "bug", "color": "d73a4a"}}, "comments": r.IntN(9), "created_at": "2026-09-01T00:00:00Z", "updated_at": "2026-09-02T00:00:00Z"})
			}
			return "mcp__github__list_issues", map[string]any{"owner": "acme", "repo": "shop", "state": "open", "sort": "created", "perPage": 30, "page": n}, text(list)
		},
		"orders by curl": func(n int) (string, map[string]any, string) {
			var list []any
			for i := range 20 {
				list = append(list, map[string]any{"id": n*20 + i, "customer": map[string]any{"name": words(2), "email": words(1) + "@example.com", "city": words(1)}, "total": r.IntN(50000), "currency": "EUR",
					"status": "paid", "items": []any{map[string]any{"sku": words(1), "quantity": r.IntN(5), "description": words(4)}}})
			}
			return "Bash", map[string]any{"command": fmt.Sprintf(`curl -s -H "Authorization: Bearer $TOKEN" -H "Accept: application/json" "https://shop.example.com/api/v1/orders?status=all&page=%d&per_page=20" | jq .`, n),
				"description": fmt.Sprintf("Get page %d of orders", n)}, text(map[string]any{"page": n, "orders": list})
		},
		"columns of tables by SQL": func(int) (string, map[string]any, string) {
			var list []any
			for range 12 {
				list = append(list, map[string]any{"column_name": words(1), "data_type": "text", "is_nullable": "YES", "column_default": nil})
			}
			return "mcp__postgres__query", map[string]any{"sql": "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '" + words(1) + "' ORDER BY ordinal_position"}, text(list)
		},
		"a log by sed": func(n int) (string, map[string]any, string) {
			return "Bash", map[string]any{"command": fmt.Sprintf("sed -n '%d,%dp' /var/log/app/server.log", n*100, n*100+99), "description": "Read on in the log"}, lines(100, func(i int) string {
				return fmt.Sprintf("2026-11-20 14:%02d:%02d INFO [http-%d] shop.RequestFilter - GET /api/v1/orders/%d 200 %dms", n, i%60, r.IntN(9), r.IntN(9999), r.IntN(300))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			begun, previous, count := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), "", 0
			add := func(kind string, message map[string]any) {
				id := fmt.Sprintf("00000000-0000-4000-8000-%012d", count)
				line := map[string]any{"parentUuid": nil, "isSidechain": false, "userType": "external", "cwd": "/w", "sessionId": "5f0c7f7e-0000-4000-8000-000000000001", "version": "2.0.30",
					"type": kind, "message": message, "uuid": id, "timestamp": begun.Add(time.Duration(count) * 2 * time.Second).Format("2006-01-02T15:04:05.000Z")}
				if previous != "" {
					line["parentUuid"] = previous
				}
				log.WriteString(text(line) + "\n")
				previous, count = id, count+1
			}
			add("user", map[string]any{"role": "user", "content": "go through all of them"})
			for n := 1; n <= 40; n++ {
				tool, input, result := page(n)
				call := fmt.Sprintf("toolu_%03d", n)
				add("assistant", map[string]any{"id": fmt.Sprintf("msg_%03d", n), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "tool_use",
					"content": []any{map[string]any{"type": "tool_use", "id": call, "name": tool, "input": input}}, "usage": map[string]any{"input_tokens": 100, "output_tokens": 50}})
				add("user", map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": call, "content": result}}})
			}
			code, out, told := weir(t, log.String(), "replay", "-")
			if code != 0 || !strings.Contains(out, "121 events of 1 flow") || !strings.Contains(out, "no rule fired") {
				t.Errorf("exit code %d\n%s\n%s", code, out, told)
			}
		})
	}
}
