package polling

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/printed"
)

// State is what a result says of what was looked at.
type State uint8

// The states.
const (
	Unknown State = iota
	GoesOn
	Over
)

// Said is what a result reports about processes.
type Said struct {
	State   State
	started string // the id of what was started in the background
	lines   int
}

// maxSaid is how much of a result is looked at. What says how something goes says it first.
const maxSaid = 4096

// maxLines is the same in lines.
const maxLines = 40

// Read returns what a result reports about processes.
func Read(result []byte) Said {
	result = bytes.TrimSpace(result[:min(len(result), maxSaid)])
	if rest, ok := bytes.CutPrefix(result, []byte("Command running in background with ID: ")); ok {
		n := 0
		for n < min(len(rest), maxName) && wordByte(rest[n]) {
			n++
		}
		return Said{started: string(rest[:n])}
	}
	// So Claude Code and Codex begin what a command that failed says.
	if rest, ok := cutAny(result, "Exit code ", "exit code "); ok {
		_, result, _ = bytes.Cut(rest, []byte("\n"))
	}
	if o := printed.Of(result); o.Framed {
		result = bytes.TrimSpace(o.Text)
	}
	s := Said{State: stateOf(result, 0)}
	if len(result) > 0 {
		s.lines = 1 + bytes.Count(result, []byte("\n"))
	}
	return s
}

func cutAny(text []byte, prefixes ...string) (rest []byte, ok bool) {
	for _, p := range prefixes {
		if rest, ok = bytes.CutPrefix(text, []byte(p)); ok {
			return rest, true
		}
	}
	return text, false
}

// words are what programs call the states that show whether something goes on, in small letters
// and joined by underscores.
var words = map[string]State{
	"running": GoesOn, "working": GoesOn, "pending": GoesOn, "queued": GoesOn, "in_progress": GoesOn, "inprogress": GoesOn, "starting": GoesOn, "waiting": GoesOn,
	"processing": GoesOn, "building": GoesOn, "creating": GoesOn, "provisioning": GoesOn, "initializing": GoesOn, "deploying": GoesOn, "executing": GoesOn,
	"uploading": GoesOn, "downloading": GoesOn, "updating": GoesOn, "deleting": GoesOn, "terminating": GoesOn, "stopping": GoesOn, "not_ready": GoesOn, "unfinished": GoesOn,
	"submitted": GoesOn, "accepted": GoesOn, "scheduled": GoesOn, "containercreating": GoesOn, "podinitializing": GoesOn, "activating": GoesOn, "incomplete": GoesOn, "progressing": GoesOn,

	"completed": Over, "complete": Over, "succeeded": Over, "success": Over, "successful": Over, "failed": Over, "failure": Over, "error": Over, "errored": Over,
	"exited": Over, "done": Over, "finished": Over, "cancelled": Over, "canceled": Over, "killed": Over, "terminated": Over, "stopped": Over, "aborted": Over,
	"timed_out": Over, "crashed": Over, "crashloopbackoff": Over, "imagepullbackoff": Over, "errimagepull": Over, "ready": Over, "ok": Over, "healthy": Over, "deployed": Over,
}

// foreign are the states in other languages than English.
var foreign = map[string]State{
	// German
	"läuft": GoesOn, "läuft_noch": GoesOn, "wird_ausgeführt": GoesOn, "in_bearbeitung": GoesOn, "in_arbeit": GoesOn, "wartend": GoesOn, "wartet": GoesOn, "ausstehend": GoesOn, "gestartet": GoesOn,
	"fertig": Over, "abgeschlossen": Over, "erledigt": Over, "fehlgeschlagen": Over, "fehler": Over, "abgebrochen": Over, "beendet": Over,
	// French
	"en_cours": GoesOn, "en_attente": GoesOn, "en_cours_d'exécution": GoesOn, "démarrage": GoesOn, "terminé": Over, "terminée": Over, "échoué": Over, "échec": Over, "erreur": Over, "annulé": Over,
	// Spanish
	"en_curso": GoesOn, "en_ejecución": GoesOn, "ejecutando": GoesOn, "ejecutándose": GoesOn, "en_proceso": GoesOn, "pendiente": GoesOn, "en_espera": GoesOn, "en_cola": GoesOn,
	"completado": Over, "terminado": Over, "finalizado": Over, "fallido": Over, "cancelado": Over,
	// Portuguese
	"em_andamento": GoesOn, "em_execução": GoesOn, "executando": GoesOn, "pendente": GoesOn, "na_fila": GoesOn, "processando": GoesOn, "concluído": Over, "falhou": Over,
	// Italian
	"in_corso": GoesOn, "in_esecuzione": GoesOn, "in_attesa": GoesOn, "in_coda": GoesOn, "completato": Over, "fallito": Over, "annullato": Over,
	// Dutch, Polish, Turkish, Swedish
	"bezig": GoesOn, "wordt_uitgevoerd": GoesOn, "voltooid": Over, "mislukt": Over, "w_toku": GoesOn, "oczekuje": GoesOn, "zakończono": Over, "devam_ediyor": GoesOn, "bekliyor": GoesOn, "tamamlandı": Over, "pågår": GoesOn, "klar": Over,
	// Russian, Ukrainian
	"выполняется": GoesOn, "в_процессе": GoesOn, "в_работе": GoesOn, "ожидание": GoesOn, "ожидает": GoesOn, "в_очереди": GoesOn, "запущено": GoesOn, "виконується": GoesOn,
	"завершено": Over, "завершён": Over, "готово": Over, "выполнено": Over, "ошибка": Over, "отменено": Over,
	// Chinese, simple and traditional
	"进行中": GoesOn, "运行中": GoesOn, "处理中": GoesOn, "等待中": GoesOn, "排队中": GoesOn, "执行中": GoesOn, "构建中": GoesOn, "正在运行": GoesOn, "正在处理": GoesOn, "未完成": GoesOn, "進行中": GoesOn, "執行中": GoesOn, "處理中": GoesOn, "等待": GoesOn,
	"已完成": Over, "完成": Over, "成功": Over, "失败": Over, "失敗": Over, "已取消": Over,
	// Japanese, Korean
	"実行中": GoesOn, "処理中": GoesOn, "待機中": GoesOn, "準備中": GoesOn, "完了": Over, "エラー": Over, "진행_중": GoesOn, "진행중": GoesOn, "실행_중": GoesOn, "실행중": GoesOn, "대기_중": GoesOn, "대기중": GoesOn, "완료": Over, "실패": Over,
}

// unending are words in -ing that name no work that goes on.
var unending = map[string]bool{"missing": true, "warning": true, "nothing": true, "failing": true, "passing": true, "existing": true, "outstanding": true, "outgoing": true, "incoming": true,
	"remaining": true, "string": true, "setting": true, "nonexisting": true, "blocking": true, "something": true, "everything": true, "billing": true, "shipping": true, "marketing": true,
	"staging": true, "king": true, "ping": true, "ring": true, "spring": true, "thing": true, "living": true, "tracking": true, "listing": true}

// doing reports whether a status of one or two words names work: Cloning, "rolling out".
func doing(w string) bool {
	first, rest, _ := strings.Cut(w, "_")
	return len(first) > 5 && strings.HasSuffix(first, "ing") && !unending[first] && len(rest) < 12 && strings.Count(rest, "_") == 0
}

// joined joins the parts of a state, as words and foreign have them.
var joined = strings.NewReplacer(" ", "_", "-", "_")

// word is the state that a word says.
func word(text []byte) State {
	text = bytes.Trim(text, " \t\r\"'`*.,")
	if len(text) == 0 || len(text) > 40 {
		return Unknown
	}
	w := joined.Replace(strings.ToLower(string(text)))
	switch s := words[w]; {
	case s != Unknown:
		return s
	case foreign[w] != Unknown:
		return foreign[w]
	case strings.HasSuffix(w, "(health:_starting)"): // Docker
		return GoesOn
	case bytes.IndexByte(text, ' ') >= 0:
		return Unknown // a sentence
	case strings.HasSuffix(w, "_in_progress"), strings.HasPrefix(w, "init:"), strings.HasPrefix(w, "pending_"):
		return GoesOn
	case strings.HasSuffix(w, "_complete"), strings.HasSuffix(w, "_failed"):
		return Over
	}
	return Unknown
}

// and joins the states of several things: what waits for all of them waits for one that goes on.
func (s State) and(o State) State {
	if s == GoesOn || o == GoesOn {
		return GoesOn
	}
	return max(s, o)
}

// maxNested is how deep results lie inside each other: the output of a shell within the result of
// a tool.
const maxNested = 4

func stateOf(text []byte, nested int) State {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0 || nested > maxNested:
		return Unknown
	case text[0] == '{' || text[0] == '[':
		var o object
		o.read(jsonwalk.New(text), 0)
		if o.state != Unknown {
			return o.state
		}
		s := Unknown
		for _, t := range o.texts {
			s = s.and(stateOf(printed.Of(t).Text, nested+1))
		}
		return s
	case bytes.IndexByte(text, '\n') < 0:
		if s := word(text); s != Unknown {
			return s
		}
	}
	if s := linesState(text); s != Unknown {
		return s
	}
	return sentence(text)
}

// object is what JSON says of a state.
type object struct {
	state State
	texts [][]byte // what may say it if the object does not
	// within is set in an object that is the value of a state.
	within bool
}

// names reports whether a member or a column of this name holds the state of something.
func names(key []byte) bool {
	key = bytes.ToLower(key)
	return bytes.HasSuffix(key, []byte("status")) || bytes.HasSuffix(key, []byte("state")) || bytes.Equal(key, []byte("phase")) || states[string(key)]
}

// states are names of members that hold a state, in other languages.
var states = map[string]bool{"statut": true, "état": true, "etat": true, "estado": true, "stato": true, "zustand": true, "situação": true, "stan": true, "durum": true, "статус": true, "состояние": true,
	"状态": true, "狀態": true, "状態": true, "ステータス": true, "상태": true, "進捗": true, "进度": true}

// named is the state of a member that holds one.
func named(text []byte) State {
	s := word(text)
	if s == Unknown && len(text) <= 40 && doing(strings.ReplaceAll(strings.ToLower(string(bytes.TrimSpace(text))), " ", "_")) {
		return GoesOn
	}
	return s
}

// read reads a value and what lies in it. A result that was cut is read as far as it goes.
func (o *object) read(c *jsonwalk.Cursor, deep int) {
	if deep > maxNested {
		c.Skip()
		return
	}
	switch c.Peek() {
	case '[':
		for c.Array(); c.Element(); {
			o.read(c, deep+1)
		}
	case '{':
		o.members(c, deep)
	default:
		c.Skip()
	}
}

// members reads the members of an object.
func (o *object) members(c *jsonwalk.Cursor, deep int) {
	status := false
	for c.Object(); c.Member(); {
		key := bytes.Clone(c.Key())
		switch next := c.Peek(); {
		case next == '"' && (names(key) || o.within && (string(key) == "code" || string(key) == "name" || string(key) == "value")):
			status = true
			o.state = o.state.and(named(c.Text()))
		case next == '"' && says(key):
			o.texts = append(o.texts, c.Text())
		case next == 't' && bytes.Equal(key, []byte("timed_out")) && status:
			c.Skip() // the wait ended before the agents did
			o.state = GoesOn
		case (next == 't' || next == 'f') && deep < maxFlags:
			o.flag(key, c.Bool())
		case next == 'n' && deep == 0 && exitNames[string(key)]:
			c.Skip() // it has not ended, so it has no code
			o.state = GoesOn
		case next-'0' <= 9 && deep < maxFlags && progress[strings.ToLower(string(key))]:
			o.progress(c.Scalar())
		case next == '{' || next == '[':
			status = status || names(key)
			within := o.within
			o.within = names(key) && next == '{'
			o.read(c, deep+1)
			o.within = within
		default:
			c.Skip()
		}
	}
}

// maxFlags is how deep flags and shares are read: those of the parts of something are not its own.
const maxFlags = 2

// exitNames are members that hold the exit code of what was started.
var exitNames = map[string]bool{"exit_code": true, "exitCode": true, "returncode": true, "return_code": true, "rc": true, "exit_status": true}

// progress are members that hold which share is done, as a fraction or in percent.
var progress = map[string]bool{"progress": true, "percent": true, "percentage": true, "pct": true, "percent_complete": true, "percentcomplete": true, "progress_percent": true, "completion": true}

// flag reads a member that says whether something is done, or goes on.
func (o *object) flag(key []byte, set bool) {
	name := strings.ReplaceAll(strings.ToLower(string(key)), "_", "")
	switch name = strings.TrimPrefix(name, "is"); name {
	case "done", "finished", "completed", "complete", "ready", "ended":
		// As operations of Google's APIs say it.
		if o.state = o.state.and(Over); !set {
			o.state = GoesOn
		}
	case "running", "inprogress", "pending", "building", "busy", "processing", "queued", "stillrunning":
		if o.state = o.state.and(Over); set {
			o.state = GoesOn
		}
	}
}

// progress reads which share is done.
func (o *object) progress(number []byte) {
	v, err := strconv.ParseFloat(string(number), 64)
	switch whole := bytes.IndexByte(number, '.') < 0; {
	case err != nil, v < 0:
	case !whole && v < 1, whole && v < 100 && v != 1:
		o.state = GoesOn
	}
}

// maxSentence is how long a text is at most, in bytes and lines, that says in a sentence how
// something goes.
const (
	maxSentence      = 200
	maxSentenceLines = 3
)

// going are parts of sentences that say that something goes on, in small letters.
var going = [...]string{"still running", "still building", "still in progress", "still waiting", "still pending", "still being", "still processing", "still working", "still alive", "still starting",
	"still compiling", "still installing", "still executing", "still queued", "still deploying", "is running in the background", "in progress", "not finished", "not yet finished", "not completed yet",
	"not complete yet", "has not finished", "not ready yet", "not yet ready", "not done yet", "please wait", "check again", "check back", "being processed", "being built", "being deployed", "being created",
	"in queue", "in the queue", "waiting for ", "waiting on ", "no response yet", "no result yet", "no results yet", "no reply yet", "no answer yet", "not available yet",
	"läuft noch", "noch nicht fertig", "wird noch", "in arbeit", "en cours", "pas encore", "todavía", "aún no", "en curso", "ainda não", "em andamento", "in corso", "non ancora",
	"выполняется", "ещё не", "еще не", "в процессе", "进行中", "运行中", "处理中", "正在", "尚未完成", "進行中", "執行中", "実行中", "処理中", "まだ", "진행 중", "실행 중", "devam ediyor", "w toku"}

// ended are parts of sentences that say that something is over, or that it went wrong.
var ended = [...]string{"error", "fail", "finished successfully", "has finished", "completed", "succeeded", "cancel", "abort", "timed out", "denied", "not found", "no such", "refused", "done.", "unknown"}

// sentence is the state that a short text says in words, or by the share that is done.
func sentence(text []byte) State {
	if len(text) > maxSentence || bytes.Count(text, []byte("\n")) >= maxSentenceLines {
		return Unknown
	}
	low := strings.ToLower(string(text))
	in := func(part string) bool { return strings.Contains(low, part) }
	switch {
	case slices.ContainsFunc(ended[:], in):
		return Unknown
	case slices.ContainsFunc(going[:], in), share(low):
		return GoesOn
	}
	// "Installing dependencies..."
	first, _, _ := strings.Cut(low, " ")
	if (strings.HasSuffix(low, "...") || strings.HasSuffix(low, "\u2026")) && doing(strings.Trim(first, ".\u2026")) {
		return GoesOn
	}
	return Unknown
}

// share reports whether a text says that a part of less than all is done: "42%".
func share(text string) bool {
	before, _, ok := strings.Cut(text, "%")
	n := len(before)
	for n > 0 && before[n-1]-'0' <= 9 {
		n--
	}
	v, err := strconv.Atoi(before[n:])
	return ok && err == nil && v < 100 && (n == 0 || before[n-1] != '.') && (len(text) < 8 || strings.Contains(text, "progress") || strings.Contains(text, "complete"))
}

// says reports whether a member of this name holds what a program printed.
func says(key []byte) bool {
	switch string(key) {
	case "stdout", "output", "content", "text", "result", "llmContent", "textResultForLlm":
		return true
	}
	return false
}

// linesState looks for a state in a text of lines.
func linesState(text []byte) (s State) {
	column, ready, first := -1, -1, true
	n := 0
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if n++; n > maxLines {
			break
		}
		line = bytes.TrimSpace(bytes.Replace(line, []byte("\uff1a"), []byte(": "), 1)) // a wide colon
		if len(line) == 0 || len(line) > 512 {
			continue
		}
		switch {
		// As Kubernetes, Codex and others say it.
		case bytes.HasPrefix(line, []byte("Waiting for ")), bytes.HasPrefix(line, []byte("Script running with cell ID ")), bytes.Contains(line, []byte("is still running")):
			return GoesOn
		case line[0] == '<':
			s = s.and(tagged(line))
		case first && bytes.Equal(line, bytes.ToUpper(line)) && len(columns(line)) > 1:
			for i, name := range columns(line) {
				switch string(name) {
				case "STATUS", "STATE", "PHASE":
					column = i
				case "READY":
					ready = i
				}
			}
		case column >= 0:
			s = s.and(cell(columns(line), column, ready))
		case bytes.IndexByte(line, '\t') >= 0:
			for field := range bytes.SplitSeq(line, []byte("\t")) {
				s = s.and(word(field))
			}
		default:
			if key, value, ok := bytes.Cut(line, []byte(":")); ok && len(key) <= 32 && names(bytes.TrimSpace(key)) {
				s = s.and(named(value))
			}
		}
		first = false
	}
	return s
}

// tagged is the state of a line such as <status>running</status>.
func tagged(line []byte) State {
	name, rest, ok := bytes.Cut(line[1:], []byte(">"))
	if value, _, closed := bytes.Cut(rest, []byte("<")); ok && closed && names(name) {
		return word(value)
	}
	return Unknown
}

// columns are the cells of a line of a table, which stand two blanks apart or more.
func columns(line []byte) (cells [][]byte) {
	for len(line) > 0 {
		cell, rest, _ := bytes.Cut(line, []byte("  "))
		cells = append(cells, bytes.TrimSpace(cell))
		line = bytes.TrimLeft(rest, " ")
	}
	return cells
}

// cell is the state of a line of a table. Of what says how many of its parts are ready, running
// means that all are.
func cell(cells [][]byte, column, ready int) State {
	if column >= len(cells) {
		return Unknown
	}
	s := word(cells[column])
	if s == GoesOn && ready >= 0 && ready < len(cells) && bytes.EqualFold(cells[column], []byte("running")) {
		if have, want, ok := bytes.Cut(cells[ready], []byte("/")); ok && bytes.Equal(have, want) {
			return Over
		}
	}
	return s
}
