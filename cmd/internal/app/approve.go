package app

import (
	"fmt"

	"weir/cmd/internal/access"
	"weir/cmd/internal/api"
	"weir/cmd/internal/approvals"
)

// checkApprovals reports a tier that stands for a principal that may not confirm a stop.
func (a *App) checkApprovals() error {
	if a.hand.Approvals == nil {
		return nil
	}
	for _, t := range a.hand.Approvals.Tiers {
		if t.As != "" && !a.access.MayStop(t.As) {
			return fmt.Errorf("tier %s: as is %q; want a principal of --access-file with the role operate, without orders and flows", t.Name, t.As)
		}
	}
	return nil
}

// openApprovals makes what asks persons about holds, if the settings have tiers.
func (a *App) openApprovals() error {
	if a.hand.Approvals == nil {
		return nil
	}
	a.approvals = &approvals.Desk{Settings: a.hand.Approvals, Actor: api.Approver(a.api), Audit: approvalAudit{a}, Secrets: a.linkSecrets, Store: a.store,
		Now: a.backend.Now, Clock: a.clock, Logger: a.logger}
	return a.approvals.Load()
}

// runApprovals begins to ask. Requests are served by then, so a link that is sent can be opened.
func (a *App) runApprovals() {
	if a.approvals != nil {
		a.run(a.intake, "approvals", a.approvals.Run)
	}
}

// approvalAudit writes what is done about holds without a request to the audit log.
type approvalAudit struct{ a *App }

func (p approvalAudit) record(h *approvals.Hold, stage, kind, by, detail string) access.Record {
	return access.Record{Time: p.a.clock.Now().UTC(), Stage: stage, ID: h.ID, Principal: "weir", By: by, Peer: "approvals", Kind: kind, Event: h.ID, Flow: h.Subject, Reason: h.Reason, Detail: detail}
}

// Before writes a line before the deed.
func (p approvalAudit) Before(h *approvals.Hold, kind, by, detail string) error {
	return p.a.audit.Write(p.record(h, access.Asked, kind, by, detail))
}

// After writes what became of it.
func (p approvalAudit) After(h *approvals.Hold, kind, by, detail string) {
	if err := p.a.audit.Write(p.record(h, access.Answered, kind, by, detail)); err != nil {
		p.a.logger.Error("the audit log does not say what became of a request for approval", "subject", h.Subject, "order", h.ID, "error", err)
	}
}
