package polling_test

import (
	"fmt"
	"testing"

	"weir/events"
	"weir/events/adapter/polling"
	"weir/events/fingerprint"
)

// step is a call and its result, some seconds after the one before.
type step struct {
	seconds    int64
	tool, args string
	said       string
	failed     bool
}

// taken plays steps and returns how many calls are looks once more.
func taken(steps []step) (again int) {
	l := polling.New(64)
	at := events.Stamp(1_700_000_000_000)
	for i, s := range steps {
		at += events.Stamp(s.seconds * 1000)
		id := fmt.Sprint("c", i)
		args := []byte(s.args)
		if l.Call("a", id, at, polling.Of(s.tool, args, fingerprint.Args(args, nil))) != "" {
			again++
		}
		l.Result("a", id, polling.Read([]byte(s.said)), s.failed, fingerprint.Content([]byte(s.said)))
	}
	return again
}

// times repeats steps.
func times(n int, steps ...step) (all []step) {
	for range n {
		all = append(all, steps...)
	}
	return all
}

const (
	running   = "<retrieval_status>not_ready</retrieval_status>\n\n<task_id>b1</task_id>\n\n<status>running</status>"
	completed = "<retrieval_status>success</retrieval_status>\n\n<task_id>b1</task_id>\n\n<status>completed</status>\n\n<output>\nrunning tests\n</output>"
	creating  = "NAME   READY   STATUS              AGE\nweb-1  0/1     ContainerCreating   2m\nweb-2  1/1     Running             2m"
	allRun    = "NAME   READY   STATUS    AGE\nweb-1  1/1     Running   2m\nweb-2  1/1     Running   2m"
)

// TestLooks holds which calls are looks once more at what goes on.
func TestLooks(t *testing.T) {
	f := func(what string, want int, steps []step) {
		t.Helper()
		if got := taken(steps); got != want {
			t.Errorf("%s: %d of %d calls are looks once more, want %d", what, got, len(steps), want)
		}
	}
	bash := func(command string) string { return fmt.Sprintf(`{"command":%q,"description":"x"}`, command) }
	task := `{"task_id":"b1","block":false}`

	f("what says that it goes on", 29, times(30, step{12, "TaskOutput", task, running, false}))
	f("the same without a pause, which the rule hot_polling slows", 29, times(30, step{2, "TaskOutput", task, running, false}))
	f("nothing but sleeps, of any length and between other calls", 29+28, times(30, step{2, "Bash", bash("sleep 10"), "", false}, step{12, "Bash", bash("sleep 2 && echo done"), "done", false})[1:])
	f("a sleep of an interpreter", 8, times(9, step{12, "Bash", bash("python3 -c 'import time; time.sleep(10)'"), "", false}))
	for _, wait := range []string{"Start-Sleep -Seconds 15", `node -e "setTimeout(()=>{}, 15000)"`, "ping -c 12 127.0.0.1 > /dev/null", "timeout 15 tail -f /dev/null", `perl -e "sleep 12"`, "read -t 15 < /dev/zero || true",
		"for i in $(seq 1 10); do sleep 1; done", `powershell -Command "Start-Sleep 15"`, `ruby -e "sleep 12"`, "wait $!", "python3 - <<'PY'\nimport time\ntime.sleep(15)\nPY"} {
		f(wait, 8, times(9, step{12, "Bash", bash(wait), "", false}))
	}
	f("a tool that waits", 8, times(9, step{12, "pause", `{"duration_ms":20000}`, "ok", false}))
	f("one that says why", 8, times(9, step{12, "mcp__clock__wait", `{"time":"20s","reason":"build"}`, "ok", false}))
	f("one that waits for something", 0, times(9, step{1, "wait_for_text", `{"text":"Loaded"}`, "nothing", false}))
	f("a look at another host", 0, times(9, step{12, "Bash", bash("ping -c 12 example.org"), "12 packets", false}))
	f("a sleep in front of work", 0, times(9, step{2, "Bash", bash("sleep 1; go test ./..."), "FAIL", false}))
	f("what says that it is over", 0, times(30, step{12, "TaskOutput", task, completed, false}))
	f("it ends", 3, append(times(3, step{12, "TaskOutput", task, running, false}), times(4, step{12, "TaskOutput", task, completed, false})...))
	f("it is waited for longer each time", 3, []step{
		{12, "TaskOutput", `{"task_id":"b1","block":true,"timeout":5000}`, running, false}, {12, "TaskOutput", `{"task_id":"b1","block":true,"timeout":9000}`, running, false},
		{30, "TaskOutput", task, running, false}, {30, "TaskOutput", task, running, false}})
	f("another task", 0, []step{{12, "TaskOutput", `{"task_id":"b1"}`, running, false}, {12, "TaskOutput", `{"task_id":"b2"}`, running, false}})
	f("no task of this name", 0, times(9, step{12, "TaskOutput", task, "No task found with ID: b1", true}))
	f("checks that are pending, which is an error", 8, times(9, step{20, "Bash", bash("gh pr checks 12"), "Exit code 8\nbuild\tpending\t0\thttps://x", true}))
	f("pods", 8, times(9, step{12, "Bash", bash("kubectl get pods"), creating, false}))
	f("pods that all run", 0, times(9, step{12, "Bash", bash("kubectl get pods"), allRun, false}))

	f("a sleep before each look", 8, times(9, step{20, "Bash", bash("sleep 20; curl -s localhost/health"), "<p>hello</p>", false}))
	f("it sleeps longer each time", 2, []step{{9, "Bash", bash("sleep 10 && tail -5 log"), "x", false}, {14, "Bash", bash("sleep 20 && tail -5 log"), "x", false}, {90, "Bash", bash("sleep 60\ntail -5 log"), "x", false}})
	f("a sleep of its own", 4+4, times(5, step{4, "Bash", bash("sleep 30"), "", false}, step{30, "Bash", bash("ls dist"), "a.js", false}))
	for _, before := range []string{"./bleep; sleep 20; ", "sleep 10; ./bleep && sleep 10; ", "echo asleep; Sleep 20; ", "usleep 20000000; "} {
		f("a sleep in "+before, 8, times(9, step{20, "Bash", bash(before + "curl -s localhost/health"), "<p>hello</p>", false}))
	}
	for _, before := range []string{"./asleep 20; ", "./bleep 20; ", "./sleeper 20; ", "usleep 20; "} {
		f("no sleep in "+before, 0, times(9, step{20, "Bash", bash(before + "curl -s localhost/health"), "<p>hello</p>", false}))
	}
	f("too short a sleep", 0, times(9, step{6, "Bash", bash("sleep 1; ls dist"), "a.js", false}))
	f("a sleep, and it is over", 4, times(5, step{4, "Bash", bash("sleep 30"), "", false}, step{30, "Bash", bash("gh run view --json status"), `{"status":"completed"}`, false}))
	f("a service that does not answer", 8, times(9, step{15, "Bash", bash("sleep 15 && pg_isready"), "Exit code 2\nno response", true}))
	f("no more than patience allows", 20, times(60, step{15, "Bash", bash("sleep 15; ls dist"), "a.js", false}))

	start := step{5, "Bash", `{"command":"make","run_in_background":true}`, "Command running in background with ID: b1x2. Output is being written to: /t/b1x2.output.", false}
	f("what the output of its own command is", 8, append([]step{start}, times(9, step{15, "Read", `{"file_path":"/t/b1x2.output"}`, "compiling", false})...))
	f("what somebody else's is", 0, append([]step{start}, times(9, step{15, "Read", `{"file_path":"/t/zzz.output"}`, "compiling", false})...))
	f("the log of its own command", 8, append([]step{{5, "Bash", bash("nohup make > build.log 2>&1 &"), "", false}}, times(9, step{15, "Bash", bash("tail -3 build.log"), "compiling", false})...))
	f("a log", 0, times(9, step{15, "Bash", bash("tail -3 build.log"), "compiling", false}))
	f("what workers have done, beside a look at whether they work", 4+4, times(5, step{4, "Bash", bash("workers"), "NAME   STATE\none    working", false}, step{5, "Bash", bash("git -C one status"), "M a", false}))

	f("a file that says so", 0, times(9, step{8, "Bash", bash("cat PLAN.md"), "Status: in progress\nStep 1\n", false}))
	f("a plan of its own", 0, times(9, step{8, "TodoRead", `{}`, `[{"content":"x","status":"in_progress"}]`, false}))
	f("what brings something about", 0, times(9, step{8, "mcp__pay__create_payment", `{"amount":5}`, `{"status":"pending"}`, false}))
	f("a request that sends", 0, times(9, step{8, "Bash", bash("curl -X POST localhost/jobs"), `{"status":"queued"}`, false}))
	f("an answer to a prompt", 0, times(9, step{8, "write_stdin", `{"session_id":1,"chars":"y\n"}`, `{"status":"running"}`, false}))
	f("what is no look", 0, times(9, step{12, "Grep", `{"pattern":"x"}`, "a.go:1:x", false}))
}

// TestForget holds that who was left with a summary looks at all things once more, and at each
// once.
func TestForget(t *testing.T) {
	l := polling.New(8)
	at := events.Stamp(1_700_000_000_000)
	call := func(id, args string) string {
		at += 1000
		return l.Call("a", id, at, polling.Of("Read", []byte(args), fingerprint.Args([]byte(args), nil)))
	}
	for i, want := range []string{"", "", "c0", "", "c1", "", ""} {
		if i == 2 {
			l.Forget("a")
		}
		// One file, another, and both again, twice each; then a third.
		args := []string{`{"p":1}`, `{"p":2}`, `{"p":1}`, `{"p":1}`, `{"p":2}`, `{"p":2}`, `{"p":3}`}[i]
		if got := call(fmt.Sprint("c", i), args); got != want {
			t.Errorf("call %d repeats %q, want %q", i, got, want)
		}
	}
}

// TestRead holds what results say of how something goes.
func TestRead(t *testing.T) {
	f := func(want polling.State, said string) {
		t.Helper()
		if got := polling.Read([]byte(said)).State; got != want {
			t.Errorf("%q says %v, want %v", said, got, want)
		}
	}
	f(polling.GoesOn, running)
	f(polling.Over, completed)
	f(polling.GoesOn, `{"retrieval_status":"timeout","task":{"status":"running","output":"status: completed"}}`)
	f(polling.Over, `{"retrieval_status":"success","task":{"status":"completed","output":"running"}}`)
	f(polling.GoesOn, `{"stdout":"{\"conclusion\":\"\",\"status\":\"in_progress\"}","stderr":""}`)
	f(polling.GoesOn, `[{"status":"completed"},{"status":"queued"}]`)
	f(polling.GoesOn, `{"name":"operations/7","done":false}`)
	f(polling.Over, `{"name":"operations/7","done":true,"response":{}}`)
	f(polling.GoesOn, `{"status":{},"timed_out":true}`)
	f(polling.Unknown, `{"timed_out":true}`)
	f(polling.GoesOn, `{"readyState":"BUILDING"}`)
	f(polling.Over, `{"readyState":"READY"}`)
	f(polling.GoesOn, "CREATE_IN_PROGRESS")
	f(polling.Over, "CREATE_COMPLETE")
	f(polling.GoesOn, "STATUS: pending-install\nREVISION: 1")
	f(polling.GoesOn, "Exit code 3\nactivating")
	f(polling.GoesOn, "Exit code 1\nWaiting for deployment \"web\" rollout to finish\nerror: timed out waiting for the condition")
	f(polling.GoesOn, "NAME      STATUS\ndb        Up About a minute (health: starting)")
	f(polling.GoesOn, "in_progress\t\tfix\tCI\ncompleted\tsuccess\tfix\tCI")
	f(polling.Over, "completed\tsuccess\tfix\tCI")
	f(polling.GoesOn, "Script running with cell ID 24\nWall time 10.0 seconds\nOutput:\n")
	f(polling.GoesOn, "web\n<command with id: 3 is still running>")
	f(polling.GoesOn, "<untrusted_context>\nOutput: {\"status\":\"in_progress\"}\nProcess Group PGID: 7\n</untrusted_context>")
	f(polling.GoesOn, "Command: kubectl get pods\nDirectory: (root)\nOutput: "+creating+"\nError: (none)\nExit Code: 0")
	f(polling.Over, "Command: kubectl get pods\nDirectory: (root)\nOutput: "+allRun+"\nError: (none)\nExit Code: 0")
	f(polling.GoesOn, `{"llmContent":"Output: {\"status\":\"queued\"}\nExit Code: 0","returnDisplay":"x"}`)
	f(polling.GoesOn, `{"resultType":"success","textResultForLlm":"{\"status\":\"queued\"}\n<shellId: 3 completed with exit code 0>"}`)
	f(polling.Unknown, "Command: ls\nDirectory: (root)")
	f(polling.Unknown, "")
	f(polling.Unknown, "the build is pending")
	f(polling.Unknown, `{"status":"open"}`)
	f(polling.Unknown, `{"status":`)
}

// FuzzRead holds that any bytes are read, and that a call with any arguments has a subject.
func FuzzRead(f *testing.F) {
	for _, s := range []string{running, creating, `{"status":"running"}`, `{"command":"sleep 5; sleep 1m && x > y &"}`, "sleep", "A  STATUS\n\n", "<status>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		polling.Read(text)
		if a, b := polling.Of("Bash", text, events.Hash{}), polling.Of("Bash", text, events.Hash{}); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("two subjects of %q", text)
		}
	})
}

// TestLooksOfAnotherAgentOfTheSession holds that a new agent that looks at what goes on repeats the look of
// the one before it, but not one of another session, nor once the work is over.
func TestLooksOfAnotherAgentOfTheSession(t *testing.T) {
	l := polling.New(64)
	look := func(who, id string, state polling.State) string {
		s := polling.Of("status", []byte(`{"job":7}`), events.Hash{Algorithm: events.XXH64, Value: 7})
		again := l.Call(who, id, 1000, s)
		l.Result(who, id, polling.Said{State: state}, false, events.Hash{Algorithm: events.XXH64, Value: 1})
		return again
	}
	for _, c := range []struct {
		who, id string
		state   polling.State
		want    string
	}{
		{"s\x00a", "1", polling.GoesOn, ""},
		{"s\x00b", "2", polling.GoesOn, "1"},
		{"other\x00c", "3", polling.GoesOn, ""},
		{"s\x00d", "4", polling.Over, "2"},
		{"s\x00e", "5", polling.GoesOn, ""},
	} {
		if got := look(c.who, c.id, c.state); got != c.want {
			t.Errorf("look %s of %q repeats %q, want %q", c.id, c.who, got, c.want)
		}
	}
}
