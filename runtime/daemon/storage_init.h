// `atolld storage init`: makes a store that enforces disk limits, for a data directory whose file
// system does not. See runtime/spawner/store_image.h for what becomes of it.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace CLI {
class App;
}

namespace atl::daemon {

class StorageCommand {
 public:
  // Adds "storage init" and its options; lives as long as `app`.
  explicit StorageCommand(CLI::App* app);
  StorageCommand(const StorageCommand&) = delete;
  StorageCommand& operator=(const StorageCommand&) = delete;

  // After the command line has been read: whether it asks for this and not for a daemon.
  bool Asked() const;
  // As root. Says on standard output what it has done; a store that is there already is no error.
  // kFailedPrecondition: a daemon or a spawner runs, or the store has content.
  Status Run(Config config) const;

 private:
  CLI::App* init_;
  std::string size_;
  std::string data_dir_;
};

}  // namespace atl::daemon
