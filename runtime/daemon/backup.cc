#include "runtime/daemon/backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "images/catalog.h"
#include "runtime/api/gate/json.h"
#include "runtime/base/base64.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sqlite.h"
#include "runtime/base/sys.h"
#include "runtime/daemon/directories.h"
#include "runtime/daemon/privileges.h"
#include "runtime/sandbox/store/pool_store.h"
#include "runtime/sandbox/store/snapshot_store.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/store/template_store.h"
#include "runtime/sandbox/volumes/volume_store.h"
#include "runtime/spawner/store/store.h"
#include "runtime/spawner/store/store_image.h"
#include "runtime/tenants/usage/ledger.h"

namespace atl::daemon {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr size_t kMaxBackup = size_t{1} << 30;

// Files in the state directory. The first two are databases. A configured API key has no file. A
// restore writes atoll.db last, so an interrupted one can be repeated.
constexpr const char* kImages = "images/images.db";
constexpr const char* kRecords = "atoll.db";
constexpr const char* kKeys[] = {"api_key", "route_key"};
constexpr const char* kKeyStore = kKeyStoreFile;  // a database; absent without tenants
// A database, compressed: it may have 300 MB, most of them small numbers. Absent if nothing was
// ever metered.
constexpr const char* kLedger = "usage.db";
constexpr const char* kPackedLedger = "usage.db.zst";
constexpr uint64_t kMaxLedger = uint64_t{1} << 30;

Result<std::string> Pack(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1);
  if (ZSTD_isError(size) != 0) {
    return Fail(Code::kInternal, std::string("zstd: ") + ZSTD_getErrorName(size));
  }
  packed.resize(size);
  return packed;
}

// Returns nothing if these bytes were not made by Pack.
std::optional<std::string> Unpacked(const std::string& packed) {
  const uint64_t size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size > kMaxLedger) return std::nullopt;  // also if the size is not known
  std::string bytes(size, '\0');
  if (ZSTD_decompress(bytes.data(), size, packed.data(), packed.size()) != size) {
    return std::nullopt;
  }
  return bytes;
}

// Checks that this release can read the records of a state. Migrates it to the current schema.
Status CheckRecords(const std::string& state) {
  const std::string path = state + "/" + kRecords;
  ATOLL_ASSIGN(const auto store, sandbox::Store::Open(path));
  ATOLL_TRY(store->Load());
  ATOLL_ASSIGN(const auto snapshots, sandbox::SnapshotStore::Open(path));
  ATOLL_TRY(snapshots->Load());
  ATOLL_ASSIGN(const auto pools, sandbox::PoolStore::Open(path));
  ATOLL_TRY(pools->Load());
  ATOLL_ASSIGN(const auto templates, sandbox::TemplateStore::Open(path));
  ATOLL_TRY(templates->Load());
  const std::string ledger = state + "/" + kLedger;
  if (::access(ledger.c_str(), F_OK) == 0) {
    ATOLL_ASSIGN([[maybe_unused]] const auto opened,
                 tenants::Ledger::Open(ledger, "trial", {}, SystemClock().Now()));
  }
  return {};
}

// Returns the directories of the store that a state refers to, relative to <data_dir>/store.
Result<std::vector<std::string>> DirectoriesOf(const std::string& state) {
  std::vector<std::string> paths;
  ATOLL_ASSIGN(images::Catalog catalog, images::Catalog::Open(state + "/" + kImages));
  ATOLL_ASSIGN(const auto layers, catalog.LoadLayers());
  for (const images::Layer& layer : layers) {
    paths.push_back(spawner::Store::LayerPath(layer.id));
  }
  ATOLL_ASSIGN(const auto volumes, sandbox::VolumeStore::Open(state + "/" + kRecords));
  ATOLL_ASSIGN(const auto records, volumes->Load());
  for (const sandbox::VolumeRecord& volume : records) {
    if (volume.state != sandbox::VolumeRecord::State::kReady) continue;
    paths.push_back(spawner::Store::VolumeDirectory(volume.directory));
  }
  return paths;
}

Status WriteFile(const std::string& path, const std::string& bytes) {
  ATOLL_ASSIGN(const UniqueFd file,
               sys::Open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  ATOLL_TRY(sys::WriteAll(file.get(), bytes));
  if (::fsync(file.get()) != 0) return FailSys("fsync " + path);
  return {};
}

// A parsed backup.
struct Backup {
  std::string store;
  std::string created_at;  // shown only
  // name, bytes; in the order of the constants above
  std::vector<std::pair<std::string, std::string>> files;
};

// Writes the backup's files into a new directory `trial`, to which only root has access.
Status Unpack(const Backup& backup, const std::string& trial) {
  ATOLL_TRY(sys::RemoveTree(AT_FDCWD, trial));
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, trial, 0700));
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, trial + "/images", 0700));
  for (const auto& [name, bytes] : backup.files) ATOLL_TRY(WriteFile(trial + "/" + name, bytes));
  return {};
}

Result<Backup> ParseBackup(const std::string& text, const std::string& file) {
  const auto wrong = [&file](const std::string& what) {
    return Fail(Code::kInvalidArgument, file + " is not a backup of this atolld: " + what);
  };
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return wrong("not a JSON object");
  const auto format = parsed.find("format");
  if (format == parsed.end() || *format != kFormat) {
    return wrong("its format is not " + std::to_string(kFormat));
  }
  const auto store = parsed.find("store"), files = parsed.find("files");
  if (store == parsed.end() || !store->is_string()) return wrong("it has no store id");
  if (files == parsed.end() || !files->is_object()) return wrong("it has no files");
  const auto created = parsed.find("createdAt");
  if (created == parsed.end() || !created->is_string()) return wrong("it has no time");
  Backup backup{store->get<std::string>(), created->get<std::string>(), {}};
  for (const char* name : {kKeys[0], kKeys[1], kKeyStore, kImages, kRecords}) {
    const auto found = files->find(name);
    if (found == files->end() && name != kImages && name != kRecords) continue;
    if (found == files->end() || !found->is_string()) return wrong(std::string("no ") + name);
    auto bytes = DecodeBase64(found->get_ref<const std::string&>());
    if (!bytes) return wrong(std::string(name) + " is damaged");
    backup.files.emplace_back(name, std::move(*bytes));
  }
  if (const auto found = files->find(kPackedLedger); found != files->end()) {
    const auto packed = found->is_string() ? DecodeBase64(found->get_ref<const std::string&>())
                                           : std::optional<std::string>();
    auto bytes = packed ? Unpacked(*packed) : std::nullopt;
    if (!bytes) return wrong(std::string(kPackedLedger) + " is damaged");
    backup.files.emplace(backup.files.begin(), kLedger, std::move(*bytes));
  }
  return backup;
}

// `state` holds the backup's files at this point, readable only by root.
Status CheckStore(const Config& config, const std::string& state, const std::string& store_id) {
  const std::string store = config.data_dir + "/store";
  const auto id = sys::ReadFileAt(AT_FDCWD, store + "/fs/" + spawner::kStoreIdFile, 64);
  if (!id) {
    return Fail(Code::kFailedPrecondition,
                store + " is not a store (" + id.error().message() +
                    "): restore the copy of the store that belongs to this backup, then try again");
  }
  if (*id != store_id) {
    return Fail(Code::kFailedPrecondition,
                store + " is another store (" + *id + ") than that of the backup (" + store_id +
                    "): restore the copy of the store that belongs to the backup, then try again");
  }
  ATOLL_ASSIGN(const auto paths, DirectoriesOf(state));
  std::string missing;
  size_t count = 0;
  for (const std::string& path : paths) {
    if (::access((store + "/" + path).c_str(), F_OK) == 0) continue;
    if (++count <= 10) missing += (missing.empty() ? "" : ", ") + path;
  }
  if (count == 0) return {};
  return Fail(Code::kFailedPrecondition,
              store + " lacks " + std::to_string(count) + " of the " +
                  std::to_string(paths.size()) + " directories that the backup refers to (" +
                  missing + (count > 10 ? ", …" : "") +
                  "): copy the store after the backup of its state, not before");
}

// Discards layers that were made after the backup. No record refers to them, and their numbers will
// be used again.
Result<size_t> DiscardLaterLayers(const Config& config, const std::string& state) {
  const std::string store = config.data_dir + "/store";
  ATOLL_ASSIGN(const auto paths, DirectoriesOf(state));
  const std::set<std::string> known(paths.begin(), paths.end());
  ATOLL_ASSIGN(const UniqueFd layers, sys::Open(store + "/fs/layers", O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const auto names, sys::ListDir(layers.get()));
  size_t discarded = 0;
  for (const std::string& name : names) {
    if (known.contains("fs/layers/" + name)) continue;
    ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, store + "/trash", 0700));
    // The spawner's janitor empties the trash.
    const std::string to = store + "/trash/restored-" + name;
    if (::rename((store + "/fs/layers/" + name).c_str(), to.c_str()) != 0) {
      return FailSys("rename layer " + name + " to " + to);
    }
    ++discarded;
  }
  return discarded;
}

// Also refuses the log of a missing database, because SQLite would apply it to the restored one.
Status RefuseState(const std::string& state) {
  for (const char* name : {kRecords, kImages, kLedger}) {
    for (const char* suffix : {"", "-wal"}) {
      if (::access((state + "/" + name + suffix).c_str(), F_OK) != 0) continue;
      return Fail(Code::kFailedPrecondition,
                  state +
                      " already has a state, which the restore would replace; to keep it:\n  mv " +
                      state + " " + state + ".old");
    }
  }
  return {};
}

}  // namespace

Result<StateFiles> ReadState(const Config& config) {
  const std::string state = StateDir(config);
  StateFiles files;
  for (const char* name : {kRecords, kImages, kKeyStore}) {
    if (name == kKeyStore && ::access((state + "/" + name).c_str(), F_OK) != 0) continue;
    ATOLL_ASSIGN(sqlite::Db db, sqlite::Db::Open(state + "/" + name));
    ATOLL_ASSIGN(files[name], db.Serialize());
  }
  for (const char* name : kKeys) {
    auto bytes = sys::ReadFileAt(AT_FDCWD, state + "/" + name, 4096);
    if (bytes) files[name] = std::move(*bytes);
  }
  return files;
}

Result<std::string> BackupText(const Config& config, const StateFiles& files,
                               const std::string& store_id) {
  json encoded = json::object();
  for (const auto& [name, bytes] : files) encoded[name] = EncodeBase64(bytes);
  const std::string ledger = StateDir(config) + "/" + kLedger;
  if (::access(ledger.c_str(), F_OK) == 0) {
    // The meter's thread may write at the same time: this is what it has committed.
    ATOLL_ASSIGN(sqlite::Db db, sqlite::Db::Open(ledger));
    ATOLL_ASSIGN(const std::string bytes, db.Serialize());
    ATOLL_ASSIGN(const std::string packed, Pack(bytes));
    encoded[kPackedLedger] = EncodeBase64(packed);
  }
  return JsonText({{"format", kFormat},
                   {"createdAt", api::FormatTime(SystemClock().UnixMillis())},
                   {"store", store_id},
                   {"files", std::move(encoded)}}) +
         "\n";
}

Status RestoreBackup(const Config& config, const std::string& file) {
  ATOLL_TRY(RequireRoot());
  ATOLL_ASSIGN(const User user, FindUser(config.user));
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, file, kMaxBackup));
  ATOLL_ASSIGN(const Backup backup, ParseBackup(text, file));
  ATOLL_TRY(MakeDirectories(config, user));
  ATOLL_ASSIGN(const Locks locks, LockDirectories(config));
  ATOLL_ASSIGN(const UniqueFd store, LockStore(config));
  const std::string state = StateDir(config);
  ATOLL_TRY(RefuseState(state));
  ATOLL_TRY(spawner::MountStore(config.data_dir));
  const std::string trial = config.data_dir + "/restore";
  Cleanup remove(
      [&trial] { [[maybe_unused]] const Status gone = sys::RemoveTree(AT_FDCWD, trial); });
  ATOLL_TRY(Unpack(backup, trial));
  ATOLL_TRY(CheckRecords(trial));
  ATOLL_TRY(CheckStore(config, trial, backup.store));
  ATOLL_ASSIGN(const size_t discarded, DiscardLaterLayers(config, trial));
  // Unpacked again, because the checks have written to the databases and their logs. The restored
  // state is exactly that of the backup, and the daemon migrates it.
  ATOLL_TRY(Unpack(backup, trial));
  // The directories belong to the daemon's user, so links in them are not followed as root.
  constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  ATOLL_ASSIGN(const UniqueFd top, sys::Open(state, kDirectory));
  ATOLL_ASSIGN(const UniqueFd images, sys::OpenAt(top.get(), "images", kDirectory));
  for (const auto& [name, bytes] : backup.files) {
    const std::string from = trial + "/" + name;
    if (::lchown(from.c_str(), user.uid, user.gid) != 0) return FailSys("chown " + from);
    const size_t slash = name.find('/');
    const int to = slash == std::string::npos ? top.get() : images.get();
    const std::string base = name.substr(slash == std::string::npos ? 0 : slash + 1);
    if (::renameat(AT_FDCWD, from.c_str(), to, base.c_str()) != 0) {
      return FailSys("rename to " + state + "/" + name);
    }
  }
  for (const UniqueFd* directory : {&images, &top}) {
    if (::fsync(directory->get()) != 0) return FailSys("fsync " + state);
  }
  std::printf("restored %s; start atolld\n", state.c_str());
  const auto is_keys = [](const auto& each) { return each.first == kKeyStore; };
  if (std::any_of(backup.files.begin(), backup.files.end(), is_keys)) {
    std::printf(
        "keys that were revoked after the backup of %s are valid again: revoke them once more "
        "('Backup' in docs/operating.md)\n",
        backup.created_at.c_str());
  }
  if (discarded != 0) {
    std::printf("removed %zu layers that were made after the backup\n", discarded);
  }
  return {};
}

}  // namespace atl::daemon
