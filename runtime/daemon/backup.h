// Backups of the daemon's state: records of volumes, snapshots, pools and templates, images' names
// and configurations, and keys. The store, with the layers and volumes themselves, is copied beside
// it by the operator's own means; a backup names what it needs of the store.
#pragma once

#include <map>
#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

// Names beneath the state directory, and bytes. They hold secrets.
using StateFiles = std::map<std::string, std::string>;

// Copies the state of this process's daemon into memory, on the loop: nothing changes between one
// database and the other. Some milliseconds for what 100,000 sandboxes leave behind.
Result<StateFiles> ReadState(const Config& config);

// The text of a backup. `store_id` is the id of the store that the state belongs to. Any thread.
std::string BackupText(const StateFiles& files, const std::string& store_id);

// `atolld restore FILE`, as root: puts the state of a backup into a data directory that has none.
// Says on standard output what it has done. kFailedPrecondition: a daemon or a spawner runs, there
// is a state already, the store is another one, or it lacks a layer or a volume that the backup
// names. Nothing has changed then.
Status RestoreBackup(const Config& config, const std::string& file);

}  // namespace atl::daemon
