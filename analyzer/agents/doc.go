// Package agents is the second stage of the fold: it keeps and judges what crosses flows, by agent, project, tree or
// budget. It promises what the stage of flows promises: the next state and the verdicts are a pure function of limits,
// state and activity, and the same bytes come of the same log.
//
// It knows no flow. What a flow tells comes as activity, and what this stage wants to be told
// is said by Wants.
package agents
