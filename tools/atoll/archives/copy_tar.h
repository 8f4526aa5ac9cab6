// Trees of the host as tar archives: what 'atoll cp' sends.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// A nameless file in TMPDIR (or /var/tmp): archives may be larger than memory.
Result<UniqueFd> TemporaryFile();

// A tar of what is beneath a directory, named relative to it, or of one file named `name`. Regular
// files, directories and symbolic links; `skipped`, unless null, gets the names of all else.
Result<UniqueFd> PackDirectory(const std::string& path, Words* skipped = nullptr);
Result<UniqueFd> PackFile(int fd, const std::string& name, uint64_t size, uint32_t mode);

}  // namespace atl::cli
