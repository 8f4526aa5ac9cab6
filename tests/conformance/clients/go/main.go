// The released Go SDK.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	sdk "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

var (
	ctx     = context.Background()
	answers = bufio.NewReader(os.Stdin)
	config  = sdk.ConnectionConfig{
		Domain: os.Getenv("CONFORMANCE_DOMAIN"),
		APIKey: os.Getenv("CONFORMANCE_KEY"),
	}
	tag = fmt.Sprintf("go-%d", os.Getpid())
	box *sdk.Sandbox
)

// A case fails by a panic: the SDK's calls return errors, and few of them are expected.
func test(name string, body func()) {
	verdict := "ok " + name
	func() {
		defer func() {
			if failure := recover(); failure != nil {
				reason := strings.Join(strings.Fields(fmt.Sprint(failure)), " ")
				verdict = "not ok " + name + " - " + reason
			}
		}()
		body()
	}()
	fmt.Println(verdict)
	answers.ReadString('\n') // the runner has noted it
}

func must[T any](value T, err error) T {
	try(err)
	return value
}

func try(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("got %v, wanted %v", got, wanted))
	}
}

func refused(err error, status int) *sdk.APIError {
	var refusal *sdk.APIError
	if !errors.As(err, &refusal) {
		panic(fmt.Sprintf("got %v, wanted status %d", err, status))
	}
	equal(refusal.StatusCode, status)
	return refusal
}

func create(options sdk.SandboxCreateOptions) *sdk.Sandbox {
	options.Image = os.Getenv("CONFORMANCE_IMAGE")
	return must(sdk.CreateSandbox(ctx, config, options))
}

func lines(messages []sdk.OutputMessage) []string {
	texts := []string{}
	for _, message := range messages {
		texts = append(texts, message.Text)
	}
	return texts
}

func out(sandbox *sdk.Sandbox, command string) string {
	done := must(sandbox.RunCommand(ctx, command, nil))
	if done.ExitCode == nil || *done.ExitCode != 0 {
		panic(fmt.Sprintf("%s: %+v", command, done))
	}
	return strings.TrimSuffix(strings.Join(lines(done.Stdout), ""), "\n")
}

func upload(path, content string, mode int) {
	try(box.UploadFile(ctx, strings.NewReader(content), sdk.UploadFileOptions{
		FileName: "file", Metadata: sdk.FileMetadata{Path: path, Mode: mode}}))
}

func download(path, ranges string) string {
	body := must(box.DownloadFile(ctx, path, ranges))
	defer body.Close()
	return string(must(io.ReadAll(body)))
}

func life() {
	test("lifecycle/create_with_all_options", func() {
		timeout := 600
		box = create(sdk.SandboxCreateOptions{
			Env:            map[string]string{"GREETING": "hello there"},
			Metadata:       map[string]string{"suite": tag},
			ResourceLimits: sdk.ResourceLimits{"cpu": "500m", "memory": "256Mi"},
			Entrypoint:     []string{"tail", "-f", "/dev/null"},
			TimeoutSeconds: &timeout,
			Platform:       &sdk.PlatformSpec{OS: "linux", Arch: "amd64"},
		})
		equal(out(box, "echo $GREETING"), "hello there")
	})
	test("lifecycle/get", func() {
		info := must(box.GetInfo(ctx))
		equal(string(info.Status.State), "Running")
		equal(info.Metadata, map[string]string{"suite": tag})
		equal(info.Entrypoint, []string{"tail", "-f", "/dev/null"})
	})
	test("lifecycle/connect", func() {
		again := must(sdk.ConnectSandbox(ctx, config, box.ID()))
		equal(out(again, "echo again"), "again")
	})
	test("lifecycle/health", func() { equal(box.IsHealthy(ctx), true) })
	test("lifecycle/renew", func() {
		renewed := must(box.Renew(ctx, 30*time.Minute))
		equal(must(box.GetInfo(ctx)).ExpiresAt.Equal(renewed.ExpiresAt), true)
	})
	test("lifecycle/manual_cleanup", func() {
		manual := create(sdk.SandboxCreateOptions{ManualCleanup: true})
		defer manual.Kill(ctx)
		equal(must(manual.GetInfo(ctx)).ExpiresAt == nil, true)
	})
	test("lifecycle/patch_metadata", func() {
		one := "1"
		info := must(box.PatchMetadata(ctx, sdk.MetadataPatch{"a": &one}))
		equal(info.Metadata, map[string]string{"suite": tag, "a": "1"})
		info = must(box.PatchMetadata(ctx, sdk.MetadataPatch{"a": nil}))
		equal(info.Metadata, map[string]string{"suite": tag})
	})
	test("lifecycle/pause_and_resume", func() {
		paused := create(sdk.SandboxCreateOptions{})
		defer paused.Kill(ctx)
		for i := 0; i < 2; i++ {
			try(paused.Pause(ctx))
			equal(string(must(paused.GetInfo(ctx)).Status.State), "Paused")
			paused = must(paused.Resume(ctx))
			equal(out(paused, "echo awake"), "awake")
		}
	})
}

func commands() {
	test("command/foreground", func() {
		done := must(box.RunCommand(ctx, "echo out; echo err >&2; exit 7", nil))
		equal(lines(done.Stdout), []string{"out\n"})
		equal(lines(done.Stderr), []string{"err\n"})
		equal(*done.ExitCode, 7)
	})
	test("command/streamed", func() {
		seen := []string{}
		must(box.RunCommand(ctx, "echo first; until [ -s /tmp/go ]; do sleep 0.01; done; cat /tmp/go",
			&sdk.ExecutionHandlers{OnStdout: func(message sdk.OutputMessage) error {
				seen = append(seen, message.Text)
				if message.Text == "first\n" {
					upload("/tmp/go", "second\n", 644)
				}
				return nil
			}}))
		equal(seen, []string{"first\n", "second\n"})
	})
	test("command/options", func() {
		user := int32(1000)
		done := must(box.RunCommandWithOpts(ctx, sdk.RunCommandRequest{
			Command: "pwd; echo $A; id -u", Cwd: "/opt", Envs: map[string]string{"A": "b c"},
			UID: &user, GID: &user}, nil))
		equal(lines(done.Stdout), []string{"/opt\n", "b c\n", "1000\n"})
	})
	test("command/session", func() {
		session := must(box.CreateSession(ctx))
		must(box.RunInSession(ctx, session.ID, sdk.RunInSessionRequest{Command: "export KEPT=yes"}, nil))
		done := must(box.RunInSession(ctx, session.ID,
			sdk.RunInSessionRequest{Command: "echo $KEPT; pwd", Cwd: "/opt"}, nil))
		equal(lines(done.Stdout), []string{"yes", "/opt"})
		try(box.DeleteSession(ctx, session.ID))
	})
	test("command/metrics", func() { equal(must(box.GetMetrics(ctx)).MemTotalMB, 256.0) })
}

func files() {
	test("files/write_and_read", func() {
		data := strings.Repeat("0123456789abcdef", 200000)
		try(box.CreateDirectory(ctx, "/tmp/d", 755))
		upload("/tmp/d/a", data, 640)
		try(box.UploadFiles(ctx, []sdk.UploadFileEntry{
			{File: bytes.NewReader([]byte("x y x")), Options: sdk.UploadFileOptions{
				FileName: "b", Metadata: sdk.FileMetadata{Path: "/tmp/d/b", Mode: 644}}},
			{File: bytes.NewReader(nil), Options: sdk.UploadFileOptions{
				FileName: "e", Metadata: sdk.FileMetadata{Path: "/tmp/d/empty"}}},
		}))
		equal(download("/tmp/d/a", "") == data, true)
		equal(download("/tmp/d/a", "bytes=10-19"), "abcdef0123")
	})
	test("files/info_search", func() {
		info := must(box.GetFileInfo(ctx, "/tmp/d/a"))["/tmp/d/a"]
		equal([]int64{int64(info.Mode), info.Size}, []int64{640, 3200000})
		found := must(box.SearchFiles(ctx, "/tmp/d", "b"))
		equal([]any{len(found), found[0].Path}, []any{1, "/tmp/d/b"})
	})
	test("files/change", func() {
		try(box.SetPermissions(ctx, sdk.PermissionsRequest{"/tmp/d/b": {Mode: 600, Owner: "dev"}}))
		equal(out(box, "stat -c '%a %U' /tmp/d/b"), "600 dev")
		try(box.ReplaceInFiles(ctx, sdk.ReplaceRequest{"/tmp/d/b": {Old: "x", New: "z"}}))
		try(box.MoveFiles(ctx, sdk.MoveRequest{{Src: "/tmp/d/b", Dest: "/tmp/d/c"}}))
		equal(download("/tmp/d/c", ""), "z y z")
		try(box.DeleteFiles(ctx, []string{"/tmp/d/c"}))
		try(box.DeleteDirectory(ctx, "/tmp/d"))
		_, err := box.DownloadFile(ctx, "/tmp/d/a", "")
		refused(err, 404)
	})
}

func fetch(endpoint *sdk.Endpoint) string {
	request := must(http.NewRequest("GET", "http://"+endpoint.Endpoint+"/cgi-bin/show", nil))
	for name, value := range endpoint.Headers {
		request.Header.Set(name, value)
	}
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	line, _, _ := strings.Cut(string(must(io.ReadAll(response.Body))), "\n")
	return line
}

func endpointsAndVolumes() {
	test("endpoint/direct", func() {
		must(box.RunCommand(ctx, "httpd -p 8000 -h /srv", nil))
		equal(fetch(must(box.GetEndpoint(ctx, 8000))), "GET /cgi-bin/show")
	})
	test("endpoint/server_proxy", func() {
		proxied := config
		proxied.UseServerProxy = true
		again := must(sdk.ConnectSandbox(ctx, proxied, box.ID()))
		equal(out(again, "echo proxied"), "proxied")
		equal(fetch(must(again.GetEndpoint(ctx, 8000))), "GET /cgi-bin/show")
	})
	test("volumes/named", func() {
		volume := sdk.Volume{Name: "data", MountPath: "/mnt/data",
			PVC: &sdk.PVC{ClaimName: "conformance-" + tag}}
		for _, step := range [][2]string{{"echo kept >/mnt/data/x", ""}, {"cat /mnt/data/x", "kept"}} {
			mounted := create(sdk.SandboxCreateOptions{Volumes: []sdk.Volume{volume}})
			text := out(mounted, step[0])
			try(mounted.Kill(ctx))
			equal(text, step[1])
		}
	})
}

func management() {
	manager := sdk.NewSandboxManager(config)
	test("manager/list_get_renew_kill", func() {
		listed := must(manager.ListSandboxInfos(ctx, sdk.ListOptions{
			States: []sdk.SandboxState{"Running"}, Metadata: map[string]string{"suite": tag},
			Page: 1, PageSize: 10}))
		equal([]any{len(listed.Items), listed.Items[0].ID}, []any{1, box.ID()})
		other := create(sdk.SandboxCreateOptions{})
		equal(must(manager.GetSandboxInfo(ctx, other.ID())).ID, other.ID())
		must(manager.RenewSandbox(ctx, other.ID(), 20*time.Minute))
		try(manager.KillSandbox(ctx, other.ID()))
		_, err := manager.GetSandboxInfo(ctx, other.ID())
		refused(err, 404)
	})
	test("errors/request_id", func() {
		_, err := manager.GetSandboxInfo(ctx, "00000000-0000-4000-8000-000000000000")
		equal(refused(err, 404).RequestID != "", true)
	})
	test("errors/wrong_key", func() {
		wrong := config
		wrong.APIKey = "wrong"
		_, err := sdk.NewSandboxManager(wrong).GetSandboxInfo(ctx, box.ID())
		refused(err, 401)
	})
	test("lifecycle/kill", func() {
		try(box.Kill(ctx))
		_, err := box.GetInfo(ctx)
		refused(err, 404)
		try(box.Close())
	})
}

func main() {
	life()
	commands()
	files()
	endpointsAndVolumes()
	network()
	management()
}
