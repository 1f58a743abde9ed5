package stack

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// standIn is an image made on this machine, under the name that a file asks for.
type standIn struct {
	name    string // of its system, which setup.sh made
	file    string // that asks for it
	asks    *regexp.Regexp
	changes []string
	what    string
}

var standIns = []standIn{
	{"golang", "cmd/weir/Dockerfile", regexp.MustCompile(`(?m)^FROM (golang:\S+)`),
		[]string{"ENV PATH=/usr/local/go/bin:/bin", "ENV GOPATH=/go", "ENV GOTOOLCHAIN=local", "ENV GOPROXY=file:///modules"},
		"this machine's Go on busybox, with the modules as files; not Alpine"},
	{"kafka", "docker-compose.yml", regexp.MustCompile(`(?m)^\s*image: (apache/kafka:\S+)`),
		[]string{"USER 1000:1000", `VOLUME ["/etc/kafka/secrets", "/mnt/shared/config"]`, "EXPOSE 9092", `CMD ["/etc/kafka/docker/run"]`},
		"Apache Kafka's own jars and its own reader of KAFKA_*; Java, shell and folders are not those of the image"},
	{"prometheus", "docker-compose.yml", regexp.MustCompile(`(?m)^\s*image: (prom/prometheus:\S+)`),
		[]string{"USER nobody", "WORKDIR /prometheus", "VOLUME /prometheus", `ENTRYPOINT ["/bin/prometheus"]`},
		"Debian's Prometheus, which is older"},
	{"grafana", "docker-compose.yml", regexp.MustCompile(`(?m)^\s*image: (grafana/grafana:\S+)`),
		[]string{"USER 472", `ENTRYPOINT ["/run.sh"]`},
		"a web server that is well when it may read the mounts and the password; NOTHING OF GRAFANA IS TRIED"},
}

// load makes the images of the stand-ins.
func (e *engine) load(repo string) {
	e.t.Helper()
	for _, s := range standIns {
		text, err := os.ReadFile(filepath.Join(repo, s.file))
		if err != nil {
			e.t.Fatal(err)
		}
		asked := s.asks.FindSubmatch(text)
		if asked == nil {
			e.t.Fatalf("%s asks for no image of %s", s.file, s.name)
		}
		tar := filepath.Join(*setup, "images", s.name+".tar")
		e.t.Logf("stand-in: %s is %s", asked[1], s.what)
		if e.has(string(asked[1]), tar) {
			continue
		}
		args := []string{"import"}
		for _, c := range s.changes {
			args = append(args, "--change", c)
		}
		e.must(3*time.Minute, "docker", append(args, tar, string(asked[1]))...)
	}
}

// has reports whether there is an image that is younger than its system.
func (e *engine) has(image, tar string) bool {
	info, err := os.Stat(tar)
	if err != nil {
		e.t.Fatal(err)
	}
	said, err := e.run(time.Minute, "", "docker", "image", "inspect", "--format", "{{.Created}}", image)
	if err != nil {
		return false // there is none
	}
	created, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(said))
	return err == nil && created.After(info.ModTime())
}
