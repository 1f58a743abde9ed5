// Package budgets counts what many flows spend together: a tenant, a team, a tool, in an hour or a
// month. A Budget is what the limits file says; an Account is the counter of one value of its scope.
// It promises that what checks are allowed to spend never exceeds the budget, as long as each
// call spends no more than was reserved for it, and that an account depends on its events alone.
package budgets
