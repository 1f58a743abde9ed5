// Package agents is the second stage of the fold: it keeps and judges what crosses flows, by agent, project, tree or
// budget. As in the stage of flows, the next state and the verdicts are a pure function of limits, state and
// activity. The same log gives the same bytes.
//
// It knows no flow. Reports of flows come as activity, and Wants lists the reports that this stage needs.
package agents
