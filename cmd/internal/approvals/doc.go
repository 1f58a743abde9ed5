// Package approvals asks persons about held work: by message, tier after tier, with signed links that approve or deny.
package approvals
