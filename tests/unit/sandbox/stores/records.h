// The records that each store in this folder holds, spelled out. They must not change with the
// tree: a field that a later release adds has its default value here.
#pragma once

#include <string>
#include <vector>

#include "netpolicy/policy/policy_json.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/idempotency.h"
#include "runtime/sandbox/store/pool_store.h"
#include "runtime/sandbox/store/snapshot_store.h"
#include "runtime/sandbox/store/template_store.h"
#include "runtime/sandbox/volumes/volume_store.h"

namespace atl::sandbox::stored {

// A sandbox in which no two fields have the same value.
inline Sandbox Full() {
  Sandbox s;
  s.id = s.spec.network.sandbox = "00000000-0000-4000-8000-000000000001";
  s.host_id = "00000000-0000-4000-8000-0000000000a1";
  s.stocked = true;
  s.created_at_ms = 1'700'000'000'001;
  s.spec.image = "python:3.11";
  s.spec.template_id = "tpl-00000000-0000-4000-8000-000000000003";
  s.spec.snapshot_id = "00000000-0000-4000-8000-000000000004";
  s.spec.entrypoint = {"sh", "-c", "echo \"'\\ \xc3\xa9\n\""};
  s.spec.env = {{"A", "1"}, {"QUOTED", "\"'\\ \xc3\xa9\n\x01"}};
  s.spec.extensions = {{"idle.after", "300"}};
  s.spec.platform = Platform{"linux", "amd64"};
  s.spec.limits = {.memory_bytes = uint64_t{1} << 40,
                   .swap_bytes = 1002,
                   .pids = 1003,
                   .cpu_millis = 1004,
                   .io_read_bps = 1005,
                   .io_write_bps = 1006,
                   .io_read_iops = 1007,
                   .io_write_iops = 1008,
                   .disk_bytes = 1009,
                   .shm_bytes = 1010,
                   .nofile = 1011};
  s.spec.reserved = {1012, 1013};
  s.spec.hooks = {{"preStart", "", {"make", "ready"}, 14}, {"tick", "@hourly", {"date"}, 15}};
  s.spec.volumes = {{wire::Volume::Kind::kHost, "/srv", "", "/host", true, false},
                    {wire::Volume::Kind::kNamed, "cache", "sub/path", "/cache", false, false},
                    {wire::Volume::Kind::kObjects, "bucket", "prefix", "/bucket", true, true}};
  s.spec.readonly_root = true;
  s.spec.unique_name = true;
  s.spec.renew_by_seconds = 16;
  s.spec.idle = IdlePolicy{17, true};
  s.spec.reclaims = false;
  s.spec.network.policy = netpolicy::Share(*netpolicy::ParsePolicy(
      R"({"defaultAction":"deny","egress":[{"action":"allow","target":"example.com"},)"
      R"({"action":"allow","target":"*.example.org"}]})"));
  s.spec.network.network = "team";
  s.spec.network.hostname = "box";
  s.spec.network.bytes_per_second = 18;
  s.image_digest = "sha256:ab";
  s.config.env = {"PATH=/bin", "LANG=C"};
  s.config.working_dir = "/work";
  s.config.user = "app";
  s.config.architecture = "amd64";
  s.config.volumes = {"/data"};
  s.config.stop_signal = "SIGQUIT";
  s.layers = {9, 4, 4294967295};
  s.fork_layer = 19;
  s.access_token = "access";
  s.secure_token = "secure";
  s.authority = {"-----BEGIN CERTIFICATE-----\nAB\n", "no key\n", "0a1b2c3d.0"};
  s.metadata = {{"name", "one"}, {"team", "ml"}};
  s.expires_at_ms = 1'700'000'000'020;
  s.state = State::kPaused;
  s.reason = "IDLE_PAUSED";
  s.message = "quoted \"'\\ \xc3\xa9";
  s.transition_at_ms = 1'700'000'000'021;
  s.slot = 22;
  s.reclaimed_bytes = uint64_t{1} << 41;
  return s;
}

// A sandbox in `state` with only the fields that every record must have.
inline Sandbox Plain(const std::string& id, State state, uint32_t slot) {
  Sandbox s;
  s.id = s.spec.network.sandbox = id;
  s.created_at_ms = 1'700'000'000'100;
  s.spec.image = "busybox:latest";
  s.spec.limits.memory_bytes = 64 << 20;
  s.image_digest = "sha256:cd";
  s.layers = {4};
  s.state = state;
  s.reason = "R";
  s.message = "m";
  s.transition_at_ms = 1'700'000'000'101;
  s.slot = slot;
  return s;
}

inline std::vector<Sandbox> Sandboxes() {
  Sandbox replacing = Plain("00000000-0000-4000-8000-000000000003", State::kReplacing, 3);
  replacing.host_id = "00000000-0000-4000-8000-0000000000a3";
  return {Full(),
          Plain("00000000-0000-4000-8000-000000000002", State::kAwaiting, 0),
          replacing,
          Plain("00000000-0000-4000-8000-000000000004", State::kRunning, 4),
          Plain("00000000-0000-4000-8000-000000000005", State::kPausing, 5),
          Plain("00000000-0000-4000-8000-000000000006", State::kResuming, 6),
          Plain("00000000-0000-4000-8000-000000000007", State::kStopping, 7),
          Plain("00000000-0000-4000-8000-000000000008", State::kEnding, 8),
          Plain("00000000-0000-4000-8000-000000000009", State::kTerminated, 0),
          Plain("00000000-0000-4000-8000-00000000000a", State::kFailing, 9),
          Plain("00000000-0000-4000-8000-00000000000b", State::kFailed, 0)};
}

// Ids of sandboxes whose records have been deleted.
inline std::vector<std::string> Gone() {
  return {"00000000-0000-4000-8000-0000000000f1", "00000000-0000-4000-8000-0000000000f2"};
}

inline std::vector<VolumeRecord> Volumes() {
  using enum VolumeRecord::State;
  return {{"being-made", kMaking, 1'700'000'000'200, "", ""},
          {"cache", kReady, 1'700'000'000'201, "", ""},
          {"going", kRemoving, 1'700'000'000'202, "", ""},
          {"tried", kTrial, 1'700'000'000'203, "00000000-0000-4000-8000-000000000004", ""}};
}

inline std::vector<PoolRecord> Pools() {
  return {{"empty", "busybox:latest", {}, {}, 1'700'000'000'300, ""},
          {"large",
           "python:3.11",
           {{"cpu", "500m"}, {"memory", "512Mi"}},
           {2, 4, 6, 8},
           1'700'000'000'301,
           ""}};
}

inline std::vector<TemplateRecord> Templates() {
  TemplateRecord plain;
  plain.id = "tpl-00000000-0000-4000-8000-000000000001";
  plain.image = "busybox:latest";
  TemplateRecord full;
  full.id = "tpl-00000000-0000-4000-8000-000000000003";
  full.image = "python:3.11";
  full.resource_limits = {{"cpu", "1"}};
  full.entrypoint = {"python3", "-m", "http.server"};
  full.env = {{"A", "1"}};
  full.metadata = {{"team", "ml"}};
  full.preparation = {8000, "curl -f localhost", 30, {"pip", "install"}, "python", 60};
  full.stock = 3;
  full.publish = "publish";
  full.format = "format";
  full.probe = "probe";
  full.warmup_seconds = 5;
  full.succeeded = true;
  full.failure = "the latest \xc3\xa9 \"failed\"";
  full.created_at_ms = 1'700'000'000'400;
  full.updated_at_ms = 1'700'000'000'401;
  return {plain, full};
}

inline std::vector<Snapshot> Snapshots() {
  Snapshot plain;
  plain.id = "00000000-0000-4000-8000-000000000501";
  Snapshot full;
  full.id = "00000000-0000-4000-8000-000000000502";
  full.sandbox_id = "00000000-0000-4000-8000-000000000001";
  full.name = "after setup";
  full.state = Snapshot::State::kReady;
  full.reason = "READY";
  full.message = "quoted \"'\\ \xc3\xa9";
  full.created_at_ms = 1'700'000'000'500;
  full.transition_at_ms = 1'700'000'000'501;
  full.size_bytes = uint64_t{1} << 42;
  full.image = "python:3.11";
  full.image_digest = "sha256:ab";
  full.config.env = {"PATH=/bin", "LANG=C"};
  full.config.entrypoint = {"python3"};
  full.config.cmd = {"-V"};
  full.config.working_dir = "/work";
  full.config.user = "app";
  full.config.architecture = "amd64";
  full.config.labels = {{"a", "b"}};
  full.config.exposed_ports = {"53/udp", "80/tcp"};
  full.config.volumes = {"/data"};
  full.config.shell = {"/bin/bash", "-c"};
  full.config.stop_signal = "SIGQUIT";
  full.metadata = {{"team", "ml"}};
  full.layers = {12, 9, 4};
  Snapshot failed = plain;
  failed.id = "00000000-0000-4000-8000-000000000503";
  failed.state = Snapshot::State::kFailed;
  failed.message = "no room";
  return {plain, full, failed};
}

inline std::vector<KeyRecord> Keys() {
  return {{"", "first key", "print 1", {"00000000-0000-4000-8000-000000000002"}, 1'700'000'000'600},
          {"",
           "second",
           "print 2",
           {"00000000-0000-4000-8000-000000000004", "00000000-0000-4000-8000-000000000005"},
           1'700'000'000'601}};
}

// History of the first sandbox.
inline std::vector<HistoryEvent> Events() {
  return {{1'700'000'000'700, "Running", "CONTAINER_RUNNING", "m"},
          {1'700'000'000'701, "Paused", "IDLE_PAUSED", "quoted \"'\\ \xc3\xa9"}};
}

}  // namespace atl::sandbox::stored
