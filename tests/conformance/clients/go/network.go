package main

import (
	"os"
	"strings"

	sdk "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

// The fake internet has two web servers, which say what they were asked for.
const good, evil = "good.example", "evil.example"

// Of what the image has, nothing more comfortable can resolve names: static glibc.
const fetchScript = `a=$(nslookup -type=a NAME | awk '/^Name/ {n = 1} /^Address/ && n {print $2}')
[ -n "$a" ] && printf 'GET / HTTP/1.1\r\nHost: NAME\r\nConnection: close\r\n\r\n' | nc -w 5 "$a" 80 || true`

func onlyGood() *sdk.NetworkPolicy {
	return &sdk.NetworkPolicy{DefaultAction: "deny",
		Egress: []sdk.NetworkRule{{Action: "allow", Target: good}}}
}

// Those of the two that answer.
func reached(sandbox *sdk.Sandbox) []string {
	names := []string{}
	for _, name := range []string{good, evil} {
		text := out(sandbox, strings.ReplaceAll(fetchScript, "NAME", name))
		if strings.Contains(text, `"host": "`+name+`"`) {
			names = append(names, name)
		}
	}
	return names
}

// What can be done with the policy of a running sandbox, and that it is what is enforced.
func changePolicy(through sdk.ConnectionConfig) {
	sandbox := must(sdk.CreateSandbox(ctx, through, sdk.SandboxCreateOptions{
		Image: os.Getenv("CONFORMANCE_IMAGE"), NetworkPolicy: onlyGood()}))
	defer sandbox.Kill(ctx)
	equal(must(sandbox.GetEgressPolicy(ctx)).Policy, onlyGood())
	equal(reached(sandbox), []string{good})
	must(sandbox.PatchEgressRules(ctx, []sdk.NetworkRule{{Action: "allow", Target: evil}}))
	equal(must(sandbox.GetEgressPolicy(ctx)).Policy.Egress,
		[]sdk.NetworkRule{{Action: "allow", Target: evil}, {Action: "allow", Target: good}})
	equal(reached(sandbox), []string{good, evil})
	must(sandbox.DeleteEgressRules(ctx, []string{good}))
	equal(reached(sandbox), []string{evil})
	must(sandbox.PatchEgressRules(ctx, []sdk.NetworkRule{{Action: "deny", Target: evil}}))
	equal(reached(sandbox), []string{})
}

func network() {
	test("network/policy", func() { changePolicy(config) })
	test("network/policy_through_the_server", func() {
		proxied := config
		proxied.UseServerProxy = true
		changePolicy(proxied)
	})
	test("network/no_policy", func() { equal(reached(box), []string{good, evil}) })
}
