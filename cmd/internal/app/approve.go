package app

import (
	"fmt"
	"net/url"

	"weir/cmd/internal/access"
	"weir/cmd/internal/api"
	"weir/cmd/internal/approvals"
	"weir/events"
)

// checkApprovals reports a tier that stands for a principal that may not confirm a stop.
func (h *switchboard) checkApprovals(keeper *access.Keeper) error {
	if h.settings.Approvals == nil {
		return nil
	}
	for _, t := range h.settings.Approvals.Tiers {
		if t.As != "" && !keeper.MayStop(t.As) {
			return fmt.Errorf("tier %s: as is %q; want a principal of --access-file with the role operate, without orders and flows", t.Name, t.As)
		}
	}
	return nil
}

// openApprovals makes what asks persons about holds, if the settings have tiers.
func (h *switchboard) openApprovals(now func() events.Stamp) error {
	if h.settings.Approvals == nil {
		return nil
	}
	h.approvals = &approvals.Desk{Settings: h.settings.Approvals, Actor: api.Approver(h.server), Audit: approvalAudit{h}, Secrets: h.linkSecrets, Store: h.store,
		Now: now, Clock: h.clock, Logger: h.logger}
	return h.approvals.Load()
}

// checkLinks warns of links that this weir would refuse to open.
func (h *switchboard) checkLinks() {
	if u, err := url.Parse(h.settings.Approvals.URL); err == nil && !h.server.KnowsHost(u.Host) {
		h.logger.Warn("links of approvals name a host that is not allowed: add --host, unless a proxy replaces the Host header", "host", u.Hostname())
	}
}

// approvalAudit writes what is done about holds without a request to the audit log.
type approvalAudit struct{ *switchboard }

func (p approvalAudit) record(h *approvals.Hold, stage, kind, by, detail string) access.Record {
	return access.Record{Time: p.clock.Now().UTC(), Stage: stage, ID: h.ID, Principal: "weir", By: by, Peer: "approvals", Kind: kind, Event: h.ID, Flow: h.Subject, Reason: h.Reason, Detail: detail}
}

// Before writes a line before the deed.
func (p approvalAudit) Before(h *approvals.Hold, kind, by, detail string) error {
	return p.audit.Write(p.record(h, access.Asked, kind, by, detail))
}

// After writes what became of it.
func (p approvalAudit) After(h *approvals.Hold, kind, by, detail string) {
	if err := p.audit.Write(p.record(h, access.Answered, kind, by, detail)); err != nil {
		p.logger.Error("the audit log does not say what became of a request for approval", "subject", h.Subject, "order", h.ID, "error", err)
	}
}
