// Evidence measures the rules on recorded runs of which it is known how they ended,
// and writes what it finds as a table in Markdown: figures only, never anything that
// the recordings say.
//
// Usage: evidence [flags] FOLDER...
//
// A folder holds labelled sets (NAME.events.jsonl.gz beside NAME.labels.jsonl.gz) or
// transcripts of sessions, one file per session, in it or below; its name is that of the
// set. Runs of which live events are given are measured twice: as they came, and without what neutral
// traces lack. Sessions have no labels: they are taken to be honest work, so whatever is stopped in
// them is stopped wrongly.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"

	"weir/analyzer"
	"weir/analyzer/limitfile"
)

// main is run by make evidence, whose output becomes EVIDENCE.md. Nothing else depends on it.
func main() {
	log.SetFlags(0)
	limits := flag.String("limits", "", "measure by this limits `FILE`, not by the defaults")
	each := flag.Bool("each", false, "list every honest run that was warned or stopped, with its file, and no table")
	half := flag.String("half", "", "take only the runs of one `HALF`, even or odd, by a hash of their names")
	forecasts := flag.Bool("forecasts", false, "measure forecasts of the final spend instead, and what their warnings save")
	flag.Parse()
	if *forecasts {
		if err := writeForecasts(os.Stdout, flag.Args()); err != nil {
			log.Fatal("evidence: ", err)
		}
		return
	}
	if err := run(*limits, *half, *each, flag.Args()); err != nil {
		log.Fatal("evidence: ", err)
	}
}

// run measures the sets in the folders by the limits in file, or by the default ones, and
// prints the table, or with each the list of honest runs that were warned.
func run(file, half string, each bool, folders []string) error {
	if len(folders) == 0 {
		return fmt.Errorf("name a folder of recorded runs")
	}
	l := limitfile.Default()
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if l, err = limitfile.Parse(file, data); err != nil {
			return err
		}
	}
	sets, err := measureAll(l, half, folders)
	if err != nil {
		return err
	}
	if each {
		listWrong(os.Stdout, sets)
		return nil
	}
	return writeReport(os.Stdout, l, sets)
}

// measureAll finds all sets before it measures the first, so that a misspelled folder is
// reported at once. half is "" for all runs.
func measureAll(l analyzer.Limits, half string, folders []string) (all []*set, err error) {
	for _, folder := range folders {
		found, err := find(folder)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s holds no recorded runs", folder)
		}
		all = append(all, found...)
	}
	all = withNeutral(all)
	for _, s := range all {
		s.half = half
		if err := s.measure(l); err != nil {
			return nil, err
		}
	}
	return all, nil
}
