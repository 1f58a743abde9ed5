package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/logs"
)

// addPeopleTools adds the tools for people who work in a coding assistant.
func (s *Server) addPeopleTools() {
	add(s, &mcp.Tool{Name: "explain_flow", Title: "Explain a flow", Annotations: reads(),
		Description: "Explains one flow: its status, active orders with their evidence, earlier stops, and the limits that it is nearest to."}, s.explainFlow)
	add(s, &mcp.Tool{Name: "backtest_limits", Title: "Try limits on a log", Annotations: reads(),
		Description: "Judges a log by the limits in force and by proposed ones: which flows each stops, and which they treat differently. The log is that of weir (since) or files. Nothing is changed."}, s.backtestLimits)
	add(s, &mcp.Tool{Name: "propose_limits", Title: "Propose limits", Annotations: reads(),
		Description: "Proposes a limits file under which no honest flow of a log is stopped, with the evidence for each line. The log is that of weir (since) or files. Nothing is changed."}, s.proposeLimits)
}

// flowIn names a flow.
type flowIn struct {
	Flow string `json:"flow_id" jsonschema:"correlation id of the flow"`
}

func (s *Server) explainFlow(ctx context.Context, c *client.Client, in flowIn) (string, any, error) {
	v, _, _, err := s.locate(ctx, c, whereIn{Flow: in.Flow})
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	if err := s.o.Explain(ctx, c, &b, &v); err != nil {
		return "", nil, err
	}
	return b.String(), v, nil
}

// logIn says which log is judged.
type logIn struct {
	Since string   `json:"since,omitempty" jsonschema:"take weir's own log from this age on, such as 24h; 0s for all of it"`
	Files []string `json:"files,omitempty" jsonschema:"take these log files and folders, in any format that weir reads; not served over HTTP"`
	Text  string   `json:"text,omitempty" jsonschema:"take this text of a log"`
}

// trialIn is what backtest_limits is asked.
type trialIn struct {
	logIn
	Limits  string `json:"limits" jsonschema:"the proposed limits file, in YAML"`
	Against string `json:"against,omitempty" jsonschema:"compare with these limits in YAML instead of those in force"`
}

// proposalIn is what propose_limits is asked.
type proposalIn struct {
	logIn
	MinFlows int `json:"min_flows,omitempty" jsonschema:"propose from so many honest flows on; 100 when not given"`
}

// trialAnswer is what weir answers to a backtest, as far as it is used here.
type trialAnswer struct {
	A, B        *backtest.Report
	Differ      int
	Differences []backtest.Difference
	Logs        []struct{ Name, Format, Why string }
	Suggested   string `json:"suggested_limits"`
	Unsuggested string `json:"no_suggestion"`
}

// trialSummary is a report without what only the report page shows.
type trialSummary struct {
	Profile string          `json:"profile"`
	Events  int64           `json:"events"`
	Flows   int             `json:"flows"`
	Warned  int             `json:"flows_warned"`
	Stopped int             `json:"flows_stopped"`
	Calls   int64           `json:"calls"`
	After   int64           `json:"calls_after_stop"`
	CostUSD float64         `json:"cost_usd"`
	Saved   float64         `json:"cost_after_stop_usd"`
	Stops   []backtest.Stop `json:"stops"`
}

// comparison is the answer of backtest_limits.
type comparison struct {
	Against     trialSummary          `json:"against"`
	Proposed    trialSummary          `json:"proposed"`
	Differ      int                   `json:"flows_that_differ"`
	Differences []backtest.Difference `json:"differences"`
	Skipped     []string              `json:"skipped,omitempty"` // logs that could not be read, and why
}

// proposal is the answer of propose_limits.
type proposal struct {
	Limits  string       `json:"limits,omitempty"` // YAML
	Why     string       `json:"why_none,omitempty"`
	Log     trialSummary `json:"log"`
	Skipped []string     `json:"skipped,omitempty"`
}

// shown is how many stops and differences an answer lists.
const shown = 20

func summaryOf(r *backtest.Report) trialSummary {
	return trialSummary{Profile: r.Profile, Events: r.Events, Flows: r.Flows, Warned: r.Warned, Stopped: r.Stopped, Calls: r.Calls, After: r.CallsAfterStop,
		CostUSD: float64(r.Cost) / 1e6, Saved: float64(r.CostAfterStop) / 1e6, Stops: r.Stops[:min(len(r.Stops), shown)]}
}

func (s *Server) backtestLimits(ctx context.Context, c *client.Client, in trialIn) (string, any, error) {
	against := in.Against
	if against == "" {
		var err error
		if against, err = inForce(ctx, c); err != nil {
			return "", nil, err
		}
	}
	got, err := s.trial(ctx, c, &in.logIn, [][2]string{{"a", against}, {"b", in.Limits}})
	if err != nil {
		return "", nil, err
	}
	out := comparison{Against: summaryOf(got.A), Proposed: summaryOf(got.B), Differ: got.Differ,
		Differences: got.Differences[:min(len(got.Differences), shown)], Skipped: got.skipped()}
	var b strings.Builder
	cli.Fprintf(&b, "%s, %s. Against: %d stopped, %d warned. Proposed: %d stopped, %d warned, with %s and %.2f US dollars after the stops.\nTreated differently: %s.",
		cli.Count(int64(out.Proposed.Flows), "flow"), cli.Count(int64(out.Proposed.Events), "event"), out.Against.Stopped, out.Against.Warned, out.Proposed.Stopped, out.Proposed.Warned, cli.Count(int64(out.Proposed.After), "call"), out.Proposed.Saved, cli.Count(int64(out.Differ), "flow"))
	for _, d := range out.Differences {
		cli.Fprintf(&b, "\n%s: %s, proposed: %s", d.Flow, outcome(d.Was), outcome(d.Is))
	}
	return b.String(), out, nil
}

// outcome is what was said of a flow, and by which rule.
func outcome(o backtest.Outcome) string {
	if o.When == nil {
		return o.Word
	}
	return o.Word + " by " + o.When.Rule
}

func (s *Server) proposeLimits(ctx context.Context, c *client.Client, in proposalIn) (string, any, error) {
	least := in.MinFlows
	if least == 0 {
		least = backtest.LeastFlows
	}
	if least < 1 {
		return "", nil, fmt.Errorf("min_flows is %d; want at least 1", least)
	}
	limits, err := inForce(ctx, c)
	if err != nil {
		return "", nil, err
	}
	got, err := s.trial(ctx, c, &in.logIn, [][2]string{{"a", limits}, {"b", limits}, {"suggest", strconv.Itoa(least)}})
	if err != nil {
		return "", nil, err
	}
	out := proposal{Limits: got.Suggested, Why: got.Unsuggested, Log: summaryOf(got.A), Skipped: got.skipped()}
	if out.Limits == "" {
		return "No limits are proposed: " + out.Why + ". Take a longer log, or set min_flows.", out, nil
	}
	return "By " + strconv.Itoa(out.Log.Flows) + " flows:\n" + out.Limits, out, nil
}

// inForce returns the limits that the running weir judges by, as a file.
func inForce(ctx context.Context, c *client.Client) (string, error) {
	resp, err := c.Do(ctx, http.MethodGet, "/v1/inspect/limits", nil, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	return string(text), err
}

// skipped are the logs that could not be read.
func (a *trialAnswer) skipped() (out []string) {
	for _, l := range a.Logs {
		if l.Why != "" {
			out = append(out, l.Why)
		}
	}
	return out
}

// trial has weir judge a log. weir makes one backtest at a time, so a refusal because of another
// one is tried again for some seconds.
func (s *Server) trial(ctx context.Context, c *client.Client, log *logIn, fields [][2]string) (*trialAnswer, error) {
	files, err := s.filesOf(log)
	if err != nil {
		return nil, err
	}
	for wait := 250 * time.Millisecond; ; wait *= 2 {
		answer, err := tryOnce(ctx, c, log, files, fields)
		if e, busy := errors.AsType[*client.StatusError](err); !busy || e.Status != http.StatusTooManyRequests || wait > 4*time.Second {
			return answer, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryOnce sends a log, as it is read, and reads the answer to its end: then weir is free for the
// next one.
func tryOnce(ctx context.Context, c *client.Client, log *logIn, files []logs.File, fields [][2]string) (*trialAnswer, error) {
	out, in := io.Pipe()
	defer out.Close()
	form := multipart.NewWriter(in)
	go func() { in.CloseWithError(writeTrial(form, log, files, fields)) }()
	resp, err := c.Send(ctx, http.MethodPost, "/v1/inspect/backtest", out, http.Header{"Content-Type": {form.FormDataContentType()}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer to the backtest: %w", err)
	}
	var answer trialAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("read the answer to the backtest: %w", err)
	}
	if answer.A == nil || answer.B == nil {
		return nil, errors.New("the answer to the backtest has no report")
	}
	return &answer, nil
}

// filesOf returns the files that are meant, and checks that one log is named.
func (s *Server) filesOf(log *logIn) ([]logs.File, error) {
	named := 0
	for _, given := range []bool{log.Since != "", len(log.Files) > 0, log.Text != ""} {
		if given {
			named++
		}
	}
	switch {
	case named != 1:
		return nil, errors.New("name one log: since, files or text")
	case len(log.Files) > 0 && s.remote:
		return nil, errors.New("files are read only where weir mcp runs on standard input; give text or since")
	}
	files, err := logs.Expand(log.Files)
	if err != nil {
		return nil, err
	}
	for i := range files {
		if files[i].Path == logs.Stdin {
			return nil, errors.New("standard input is the client's; name a file")
		}
	}
	return files, nil
}

// writeTrial writes the form of a backtest. Its parts have an order, so that weir can judge a log
// while it comes.
func writeTrial(form *multipart.Writer, log *logIn, files []logs.File, fields [][2]string) error {
	if log.Since != "" {
		fields = append(fields, [2]string{"since", log.Since})
	}
	for _, f := range fields {
		if err := form.WriteField(f[0], f[1]); err != nil {
			return err
		}
	}
	if log.Text != "" {
		w, err := form.CreateFormFile("log", "text")
		if err == nil {
			_, err = io.WriteString(w, log.Text)
		}
		if err != nil {
			return err
		}
	}
	for i := range files {
		if err := writeLog(form, &files[i]); err != nil {
			return err
		}
	}
	return form.Close()
}

// writeLog writes one file as a part of the form.
func writeLog(form *multipart.Writer, file *logs.File) error {
	if file.Fault != nil {
		return nil // a device, or a file that lies in a folder and cannot be read
	}
	f, err := os.Open(file.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := form.CreateFormFile("log", file.Path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
