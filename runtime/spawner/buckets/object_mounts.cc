#include "runtime/spawner/buckets/object_mounts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/buckets/object_error.h"
#include "runtime/spawner/buckets/object_group.h"
#include "runtime/spawner/host/limit_policy.h"

namespace atl::spawner {
namespace {

// Deadline of a mount that is being made. s3fs itself gives up a store that answers nothing
// earlier.
constexpr int64_t kMountPatienceUs = 30 * 1000 * 1000;
// Meanwhile s3fs stores the files that the killed processes have closed.
constexpr int64_t kFlushPatienceUs = 2 * 1000 * 1000;
constexpr int64_t kLookAgainUs = 5 * 1000;
constexpr int64_t kServersPatienceMs = 5000;  // shared by all servers
constexpr size_t kMaxMaking = 32;
constexpr size_t kMaxLog = 16 << 10;
constexpr size_t kMaxSecretFile = 4096;

// Limits of one server: s3fs has 16 MB, and what it is sending. Its cache is a file.
constexpr cgroup::Limits kServerLimits{
    .memory_bytes = wire::kBucketMemory, .pids = wire::kBucketPids, .cpu_millis = 1000};

const wire::ObjectStore* FindStore(const Host& host, const std::string& name) {
  const auto& stores = host.config.object_stores;
  const auto found = std::find_if(stores.begin(), stores.end(),
                                  [&](const wire::ObjectStore& each) { return each.name == name; });
  return found == stores.end() ? nullptr : &*found;
}

// Reads the operator's file, which nobody else may read.
Result<wire::ObjectCredentials> ReadCredentials(const std::string& path) {
  const auto wrong = [&](const std::string& why) {
    return Fail(Code::kInternal, "credentials of an object store: " + path + ": " + why);
  };
  // O_NONBLOCK: do not wait for the other end of a pipe.
  const auto file = sys::Open(path, O_RDONLY | O_NONBLOCK);
  if (!file) return wrong(file.error().message());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0) return wrong("fstat failed");
  if (!S_ISREG(info.st_mode) || info.st_uid != 0 || (info.st_mode & 077) != 0) {
    return wrong("must be a file of root's that nobody else may read: chown root, chmod 600");
  }
  const auto text = sys::ReadAll(file->get(), kMaxSecretFile);
  if (!text) return wrong(text.error().message());
  auto credentials = wire::ParseCredentials(*text);
  if (!credentials) return wrong(credentials.error().message());
  return credentials;
}

Result<wire::ObjectCredentials> CredentialsFor(const wire::MountObjects& wanted,
                                               const wire::ObjectStore& store) {
  if (wanted.volume.own_credentials) return wanted.credentials;
  if (!store.credentials.empty()) return ReadCredentials(store.credentials);
  return Fail(Code::kFailedPrecondition,
              "object store '" + store.name +
                  "' has no credentials of the operator's: send accessKeyId and accessKeySecret, "
                  "or name a file by credentials= in storage.object_stores");
}

Status CheckHost() {
  if (::access(kObjectServer, X_OK) == 0) return {};
  return Fail(Error(
      Code::kInternal,
      std::string("volumes of buckets need ") + kObjectServer + ": apt-get install s3fs", ENOENT));
}

// Reads what is there, without waiting for more.
void ReadLog(int fd, std::string* text) {
  char chunk[4096];
  for (;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(::read(fd, chunk, sizeof chunk));
    if (n <= 0) return;
    text->append(chunk, std::min(kMaxLog - text->size(), static_cast<size_t>(n)));
  }
}

}  // namespace

Status ObjectMounts::Adopt(const SlotSet& slots) {
  ATOLL_ASSIGN(const std::vector<std::string> groups, host_.cgroups.Groups());
  for (const std::string& group : groups) {
    const auto named = ParseObjectGroup(group);
    if (!named) continue;
    const Key key = *named;
    Entry& entry = entries_[key];
    if (!slots.test(key.first)) {
      End(key);
      continue;
    }
    entry.state = State::kServing;
    if (Status watched = Watch(key, &entry); !watched) return watched;
    OnEvents(key);
  }
  return {};
}

void ObjectMounts::Mount(const wire::MountObjects& wanted, Done done) {
  const Key key{wanted.slot, wanted.index};
  const auto making = std::count_if(entries_.begin(), entries_.end(), [](const auto& each) {
    return each.second.state == State::kMaking;
  });
  if (static_cast<size_t>(making) >= kMaxMaking || entries_.contains(key)) {
    return done(Fail(Code::kUnavailable, "too many buckets are being mounted: try again"));
  }
  size_t of_slot = 0;
  ForEach(key.first, [&](Key, Entry&) { ++of_slot; });
  if (of_slot >= wire::kMaxBuckets) {
    return done(Fail(Code::kInvalidArgument,
                     "a sandbox may have " + std::to_string(wire::kMaxBuckets) + " buckets"));
  }
  Entry entry;
  entry.volume = wanted.volume;
  if (Status begun = Begin(wanted, &entry); !begun) {
    entries_[key].state = State::kEnding;
    End(key);
    return done(std::move(begun));
  }
  entry.done = std::move(done);
  Entry& kept = entries_[key] = std::move(entry);
  kept.patience = loop_.After(kMountPatienceUs, [this, key] {
    entries_.at(key).patience = 0;
    Failed(key, Error(Code::kDeadlineExceeded, "the store has not answered for 30 seconds"));
  });
  const auto watch = loop_.Watch(kept.said.get(), EPOLLIN, [this, key](uint32_t) { OnSaid(key); });
  ATOLL_CHECK(watch.has_value());
  kept.said_watch = *watch;
  if (Status watched = Watch(key, &kept); !watched) Failed(key, watched.error());
}

Status ObjectMounts::Begin(const wire::MountObjects& wanted, Entry* entry) {
  ATOLL_ASSIGN(const wire::BucketName name, wire::ParseSource(wanted.volume.source));
  const wire::ObjectStore* const store = FindStore(host_, name.store);
  if (store == nullptr || !wire::AllowsBucket(*store, name.bucket)) {
    return Fail(Code::kPermissionDenied,
                "bucket '" + wanted.volume.source.substr(0, 128) +
                    "' is none that the operator allows: add it to object_stores in [storage] "
                    "(--object-store of the spawner) and restart both");
  }
  ATOLL_TRY(CheckHost());
  ObjectServerSpec spec{
      .store = *store,
      .bucket = name.bucket,
      .prefix = wanted.volume.sub_path,
      .read_only = wanted.volume.read_only,
      .credentials = {},
      .owner = host_.IdBase(wanted.slot),
      .user = ObjectServerUser(host_.instance, wanted.slot, wanted.index),
      .group = ObjectGroup({wanted.slot, wanted.index}),
      .scratch = host_.store.path() + "/" + Store::BucketPath(wanted.slot, wanted.index)};
  ATOLL_ASSIGN(spec.credentials, CredentialsFor(wanted, *store));
  entry->credentials = spec.credentials;
  ATOLL_TRY(host_.store.CreateBucketScratch(wanted.slot, wanted.index, spec.user));
  ATOLL_TRY(host_.cgroups.CreateGroup(spec.group));
  ATOLL_TRY(host_.cgroups.DelegateGroup(spec.group, 0));
  ATOLL_TRY(host_.cgroups.SetLimits(spec.group, {}, OnlyKept(host_, kServerLimits)));
  ATOLL_ASSIGN(ObjectServer server, StartObjectServer(host_, spec));
  entry->mount = std::move(server.mount);
  entry->said = std::move(server.said);
  entry->log = std::move(server.log);
  return {};
}

Status ObjectMounts::Watch(Key key, Entry* entry) {
  ATOLL_ASSIGN(const UniqueFd group, host_.cgroups.OpenDir(ObjectGroup(key), ""));
  ATOLL_ASSIGN(entry->events, sys::OpenAt(group.get(), "cgroup.events", O_RDONLY));
  ATOLL_ASSIGN(entry->events_watch, loop_.Watch(entry->events.get(), EPOLLPRI,
                                                [this, key](uint32_t) { OnEvents(key); }));
  return {};
}

void ObjectMounts::StopWatching(Entry& entry) {
  if (entry.said_watch != 0) loop_.Unwatch(std::exchange(entry.said_watch, 0));
  if (entry.events_watch != 0) loop_.Unwatch(std::exchange(entry.events_watch, 0));
  if (entry.patience != 0) loop_.Cancel(std::exchange(entry.patience, 0));
  entry.said.reset();
  entry.events.reset();
}

void ObjectMounts::OnSaid(Key key) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.state != State::kMaking) return;
  Entry& entry = found->second;
  char word = 0;
  const ssize_t n = TEMP_FAILURE_RETRY(::read(entry.said.get(), &word, 1));
  if (n < 0 && errno == EAGAIN) return;
  if (n == 1 && word == '+') {
    loop_.Unwatch(std::exchange(entry.said_watch, 0));
    loop_.Cancel(std::exchange(entry.patience, 0));
    entry.said.reset();
    // s3fs ignores that nobody reads its log any more.
    entry.log.reset();
    entry.credentials = {};
    entry.state = State::kMade;
    return std::exchange(entry.done, nullptr)({});
  }
  ReadLog(entry.log.get(), &entry.text);
  const auto name = wire::ParseSource(entry.volume.source);
  const wire::ObjectStore* const store = name ? FindStore(host_, name->store) : nullptr;
  Failed(key, store ? ObjectError(entry.text, *store, name->bucket, entry.credentials)
                    : Error(Code::kInternal, "the store is no longer configured"));
}

void ObjectMounts::OnEvents(Key key) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.state == State::kEnding) return;
  Entry& entry = found->second;
  char text[256];
  const ssize_t n = ::pread(entry.events.get(), text, sizeof text, 0);
  if (n < 0 || std::string_view(text, static_cast<size_t>(n)).find("populated 0") ==
                   std::string_view::npos) {
    return;
  }
  // While a mount is being made, the end of `said` comes too, and says why.
  if (entry.state == State::kMaking) return;
  const bool serving = entry.state == State::kServing;
  StopWatching(entry);
  entry.state = State::kLost;
  if (!serving) return;  // a build will find it broken, and its users get ENOTCONN
  LogLine(LogLevel::kWarning, "the server of a bucket has ended").Add("slot", key.first);
  lost_(key.first, key.second);
}

void ObjectMounts::Failed(Key key, Error error) {
  // Watch for the moment when nothing is left of it.
  Entry& entry = entries_.at(key);
  const Done done = std::exchange(entry.done, nullptr);
  End(key);
  if (done) done(Fail(std::move(error)));
}

Result<int> ObjectMounts::Find(uint32_t slot, uint32_t index, const wire::Volume& volume) const {
  const auto found = entries_.find({slot, index});
  if (found == entries_.end() || found->second.state != State::kMade ||
      found->second.volume != volume) {
    return Fail(Code::kInternal, "the bucket at " + volume.target + " is not mounted any more");
  }
  return found->second.mount.get();
}

void ObjectMounts::ForEach(uint32_t slot, const std::function<void(Key, Entry&)>& each) {
  for (auto next = entries_.lower_bound({slot, 0});
       next != entries_.end() && next->first.first == slot;) {
    const auto here = next++;
    each(here->first, here->second);
  }
}

void ObjectMounts::Built(uint32_t slot) {
  ForEach(slot, [](Key, Entry& entry) {
    entry.mount.reset();
    if (entry.state == State::kMade) entry.state = State::kServing;
  });
}

void ObjectMounts::Dismiss(uint32_t slot) {
  ForEach(slot, [this](Key key, Entry& entry) {
    if (entry.state == State::kEnding || entry.patience != 0) return;
    entry.patience = loop_.After(kFlushPatienceUs, [this, key] {
      entries_.at(key).patience = 0;
      End(key);
    });
  });
}

void ObjectMounts::Release(uint32_t slot) {
  ForEach(slot, [this](Key key, Entry&) { End(key); });
}

void ObjectMounts::Abandon() {
  std::vector<Key> keys;
  for (const auto& [key, entry] : entries_) {
    if (entry.state == State::kMaking || entry.state == State::kMade) keys.push_back(key);
  }
  for (const Key& key : keys)
    Failed(key, Error(Code::kUnavailable, "the daemon that asked for the mount has gone"));
}

void ObjectMounts::End(Key key) {
  Entry& entry = entries_[key];
  entry.state = State::kEnding;
  StopWatching(entry);
  entry.mount.reset();
  entry.log.reset();
  // Kills every process that has the connection to the kernel open. That releases everybody who
  // waits for the server.
  const Status killed = host_.cgroups.Kill(ObjectGroup(key));
  if (!killed && killed.error().error_number() != ENOENT) {
    LogLine(LogLevel::kError, "cgroup.kill failed")
        .Add("group", ObjectGroup(key))
        .Add(killed.error());
  }
  if (TryRemove(key) || sweeping_) return;
  sweeping_ = true;
  loop_.After(kLookAgainUs, [this] { Sweep(); });
}

bool ObjectMounts::TryRemove(Key key) {
  const Status removed = host_.cgroups.RemoveGroup(ObjectGroup(key));
  if (!removed && removed.error().error_number() == EBUSY) return false;
  if (!removed) {
    LogLine(LogLevel::kError, "cannot remove a group")
        .Add("group", ObjectGroup(key))
        .Add(removed.error());
  }
  entries_.erase(key);
  return true;
}

void ObjectMounts::Sweep() {
  std::vector<Key> ending;
  for (const auto& [key, entry] : entries_) {
    if (entry.state == State::kEnding) ending.push_back(key);
  }
  sweeping_ = false;
  for (const Key& key : ending) sweeping_ = !TryRemove(key) || sweeping_;
  if (sweeping_) loop_.After(kLookAgainUs, [this] { Sweep(); });
}

void ObjectMounts::Finish() {
  std::vector<Key> keys;
  for (const auto& [key, entry] : entries_) keys.push_back(key);
  for (const Key& key : keys) End(key);
  const int64_t by_us = SystemClock().BootMicros() + kServersPatienceMs * 1000;
  for (const Key& key : keys) {
    if (!entries_.contains(key)) continue;
    const int64_t left_us = std::max<int64_t>(by_us - SystemClock().BootMicros(), 0);
    const Status empty =
        host_.cgroups.AwaitEmpty(ObjectGroup(key), static_cast<int>(left_us / 1000));
    if (!empty || !TryRemove(key)) {
      LogLine(LogLevel::kError, "the server of a bucket has not ended")
          .Add("group", ObjectGroup(key));
    }
  }
}

void ObjectMounts::TellLost() const {
  for (const auto& [key, entry] : entries_) {
    if (entry.state == State::kLost) lost_(key.first, key.second);
  }
}

}  // namespace atl::spawner
