// The released Kotlin/Java SDK.
import com.alibaba.opensandbox.sandbox.Sandbox;
import com.alibaba.opensandbox.sandbox.SandboxManager;
import com.alibaba.opensandbox.sandbox.config.ConnectionConfig;
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.OutputMessage;
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.RunCommandRequest;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.EntryInfo;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.MoveEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SetPermissionEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSandboxInfos;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter;
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

public final class Client {
  interface Body {
    void run() throws Exception;
  }

  static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));
  static final String TAG = "java-" + ProcessHandle.current().pid();
  static Sandbox box;

  static void test(String name, Body body) throws Exception {
    try {
      body.run();
      System.out.println("ok " + name);
    } catch (Exception | AssertionError error) {
      error.printStackTrace();
      System.out.println("not ok " + name + " - " + String.valueOf(error).replaceAll("\\s+", " "));
    }
    ANSWERS.readLine();  // the runner has noted it
  }

  static void equal(Object got, Object wanted) {
    if (!Objects.deepEquals(got, wanted)) {
      throw new AssertionError("got " + got + ", wanted " + wanted);
    }
  }

  static void check(boolean holds, Object what) {
    if (!holds) throw new AssertionError(String.valueOf(what));
  }

  static void refused(Body doing, int status) throws Exception {
    try {
      doing.run();
    } catch (SandboxApiException error) {
      equal(error.getStatusCode(), status);
      return;
    }
    throw new AssertionError("done, where " + status + " was expected");
  }

  static ConnectionConfig config() {
    return ConnectionConfig.builder()
        .domain(System.getenv("CONFORMANCE_DOMAIN"))
        .apiKey(System.getenv("CONFORMANCE_KEY"))
        // This release passes no headers of an endpoint on; the key opens the exec API as well.
        .addHeader("OPEN-SANDBOX-API-KEY", System.getenv("CONFORMANCE_KEY"))
        .build();
  }

  static Sandbox.Builder create() {
    return Sandbox.builder()
        .connectionConfig(config())
        .image(System.getenv("CONFORMANCE_IMAGE"))
        .timeout(Duration.ofMinutes(10));
  }

  static SandboxManager manager() {
    return SandboxManager.builder().connectionConfig(config()).build();
  }

  static List<String> lines(List<OutputMessage> messages) {
    return messages.stream().map(OutputMessage::getText).toList();
  }

  static String out(Sandbox sandbox, String command) {
    Execution done = sandbox.commands().run(command);
    check(done.getError() == null, done.getError());
    return String.join("", lines(done.getLogs().getStdout())).stripTrailing();
  }

  static WriteEntry entry(String path, Object data, int mode) {
    return WriteEntry.builder().path(path).data(data).mode(mode).build();
  }

  static void life() throws Exception {
    test("lifecycle/create_with_all_options", () -> {
      box = create()
          .env("GREETING", "hello there")
          .metadata("suite", TAG)
          .resource(Map.of("cpu", "500m", "memory", "256Mi"))
          .entrypoint("tail", "-f", "/dev/null")
          .readyTimeout(Duration.ofSeconds(60))
          .build();
      equal(out(box, "echo $GREETING"), "hello there");
    });
    test("lifecycle/get", () -> {
      SandboxInfo info = box.getInfo();
      equal(info.getStatus().getState(), "Running");
      equal(info.getMetadata(), Map.of("suite", TAG));
      equal(info.getEntrypoint(), List.of("tail", "-f", "/dev/null"));
    });
    test("lifecycle/connect", () -> {
      Sandbox again =
          Sandbox.connector().sandboxId(box.getId()).connectionConfig(config()).connect();
      equal(out(again, "echo again"), "again");
    });
    test("lifecycle/health", () -> check(box.isHealthy(), "it is not healthy"));
    test("lifecycle/renew", () -> {
      box.renew(Duration.ofMinutes(30));
      SandboxInfo info = box.getInfo();
      Duration lives = Duration.between(info.getCreatedAt(), info.getExpiresAt());
      check(lives.toMinutes() >= 29, lives);
    });
    test("lifecycle/pause_and_resume", () -> {
      Sandbox paused = create().build();
      try {
        paused.pause();
        equal(paused.getInfo().getStatus().getState(), "Paused");
        paused.resume();
        equal(paused.getInfo().getStatus().getState(), "Running");
      } finally {
        paused.kill();
      }
    });
  }

  static void commands() throws Exception {
    test("command/foreground", () -> {
      Execution done = box.commands().run("echo out; echo err >&2; exit 7");
      equal(lines(done.getLogs().getStdout()), List.of("out\n"));
      equal(lines(done.getLogs().getStderr()), List.of("err\n"));
      equal(done.getError().getValue(), "7");
    });
    test("command/streamed", () -> {
      List<String> seen = new ArrayList<>();
      ExecutionHandlers handlers = ExecutionHandlers.builder().onStdout(message -> {
        seen.add(message.getText());
        if (message.getText().equals("first\n")) box.files().write(List.of(
            entry("/tmp/go", "second\n", 644)));
      }).build();
      box.commands().run(RunCommandRequest.builder()
          .command("echo first; until [ -s /tmp/go ]; do sleep 0.01; done; cat /tmp/go")
          .workingDirectory("/opt")
          .handlers(handlers)
          .build());
      equal(seen, List.of("first\n", "second\n"));
    });
    test("command/background", () -> {
      Execution started = box.commands().run(
          RunCommandRequest.builder().command("sleep 100").background(true).build());
      box.commands().interrupt(started.getId());
      equal(out(box, "until ! pgrep -x sleep >/dev/null; do :; done; echo ended"), "ended");
    });
    test("command/interrupt", () -> {
      BlockingQueue<String> ids = new ArrayBlockingQueue<>(1);
      Thread other = new Thread(() -> {
        try {
          box.commands().interrupt(ids.poll(20, TimeUnit.SECONDS));
        } catch (InterruptedException ignored) {
          Thread.currentThread().interrupt();
        }
      });
      other.start();
      Execution done = box.commands().run(RunCommandRequest.builder()
          .command("sleep 60")
          .handlers(ExecutionHandlers.builder().onInit(init -> ids.add(init.getId())).build())
          .build());
      other.join();
      check(done.getError() != null, "no error is told");
    });
    test("command/metrics", () -> {
      equal(box.getMetrics().getMemoryTotalInMiB(), 256f);
      check(box.getMetrics().getCpuCount() > 0, "no processor");
    });
  }

  static void files() throws Exception {
    test("files/write_and_read", () -> {
      byte[] data = new byte[3 << 20];
      for (int i = 0; i < data.length; ++i) data[i] = (byte) i;
      box.files().createDirectories(List.of(entry("/tmp/d", "", 755)));
      box.files().write(List.of(entry("/tmp/d/a", data, 640), entry("/tmp/d/b", "x y x", 644)));
      check(Arrays.equals(box.files().readByteArray("/tmp/d/a"), data), "another content");
      equal(box.files().readFile("/tmp/d/b", "UTF-8", "bytes=2-4"), "y x");
      try (var stream = box.files().readStream("/tmp/d/a")) {
        check(Arrays.equals(stream.readAllBytes(), data), "another streamed content");
      }
    });
    test("files/info_search", () -> {
      EntryInfo info = box.files().readFileInfo(List.of("/tmp/d/a")).get("/tmp/d/a");
      equal(List.of(info.getMode(), info.getSize()), List.of(640, (long) (3 << 20)));
      List<EntryInfo> found = box.files().search(
          SearchEntry.builder().path("/tmp/d").pattern("b").build());
      equal(found.stream().map(EntryInfo::getPath).toList(), List.of("/tmp/d/b"));
    });
    test("files/change", () -> {
      box.files().setPermissions(List.of(
          SetPermissionEntry.builder().path("/tmp/d/b").mode(600).owner("dev").build()));
      equal(out(box, "stat -c '%a %U' /tmp/d/b"), "600 dev");
      box.files().replaceContents(List.of(ContentReplaceEntry.builder()
          .path("/tmp/d/b").oldContent("x").newContent("z").build()));
      box.files().moveFiles(List.of(
          MoveEntry.builder().src("/tmp/d/b").dest("/tmp/d/c").build()));
      equal(box.files().readFile("/tmp/d/c"), "z y z");
      box.files().deleteFiles(List.of("/tmp/d/c"));
      box.files().deleteDirectories(List.of("/tmp/d"));
      refused(() -> box.files().readFile("/tmp/d/a"), 404);
    });
  }

  static void rest() throws Exception {
    test("endpoint/direct", () -> {
      box.commands().run("httpd -p 8000 -h /srv");
      String address = box.getEndpoint(8000).getEndpoint();
      HttpResponse<String> page = HttpClient.newHttpClient().send(
          HttpRequest.newBuilder(URI.create("http://" + address + "/cgi-bin/show")).build(),
          HttpResponse.BodyHandlers.ofString());
      equal(page.body().lines().findFirst().orElse(""), "GET /cgi-bin/show");
    });
    test("manager/list_get_renew_kill", () -> {
      try (SandboxManager manager = manager()) {
        PagedSandboxInfos listed = manager.listSandboxInfos(SandboxFilter.builder()
            .states("Running").metadata(Map.of("suite", TAG)).page(1).pageSize(10).build());
        equal(listed.getSandboxInfos().stream().map(SandboxInfo::getId).toList(),
              List.of(box.getId()));
        UUID other = create().build().getId();
        equal(manager.getSandboxInfo(other).getId(), other);
        manager.renewSandbox(other, Duration.ofMinutes(20));
        manager.killSandbox(other);
        refused(() -> manager.getSandboxInfo(other), 404);
      }
    });
    test("errors/wrong_key", () -> {
      ConnectionConfig wrong = ConnectionConfig.builder()
          .domain(System.getenv("CONFORMANCE_DOMAIN")).apiKey("wrong").build();
      try (SandboxManager manager = SandboxManager.builder().connectionConfig(wrong).build()) {
        refused(() -> manager.getSandboxInfo(box.getId()), 401);
      }
    });
    test("lifecycle/kill", () -> {
      box.kill();
      refused(() -> box.getInfo(), 404);
      box.close();
    });
  }

  public static void main(String[] arguments) throws Exception {
    life();
    commands();
    files();
    rest();
    System.exit(0);  // the SDK's threads would keep the process for a minute
  }
}
