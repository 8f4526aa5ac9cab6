// Backups of the daemon's state: the records of volumes, snapshots, pools and templates, the
// history without its logs, the ledger of usage, the names and configurations of images, and keys.
// The store, with the layers and volumes themselves, is not
// included; the operator copies it by other means. A backup lists what it needs from the store.
#pragma once

#include <map>
#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

// File names relative to the state directory, and their content, which includes secrets.
using StateFiles = std::map<std::string, std::string>;

// Copies the state of this process's daemon into memory, without the ledger. Call on the loop, so
// that nothing changes between the databases. Takes some milliseconds for the records of 100,000
// sandboxes.
Result<StateFiles> ReadState(const Config& config);

// Returns the text of a backup: these files and the ledger of usage, which may be large.
// `store_id`: the id of the store that the state belongs to. Any thread, but not the loop's.
Result<std::string> BackupText(const Config& config, const StateFiles& files,
                               const std::string& store_id);

// `atolld restore FILE`, as root: writes the state of a backup into a data directory without state,
// and reports on standard output. kFailedPrecondition, with nothing changed: a daemon or a spawner
// runs, there is a state already, the store has another id, or it lacks a layer or volume that the
// backup lists.
Status RestoreBackup(const Config& config, const std::string& file);

}  // namespace atl::daemon
