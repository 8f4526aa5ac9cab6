// Packs directories of the host into tar archives, which 'atoll cp' sends.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Opens an unnamed file in TMPDIR (or /var/tmp), because an archive may be larger than memory.
Result<UniqueFd> TemporaryFile();

// Pack the content of a directory, with names relative to it, or one file under `name`. Regular
// files, directories and symbolic links only; `skipped`, unless null, gets the names of all others.
Result<UniqueFd> PackDirectory(const std::string& path, Words* skipped = nullptr);
Result<UniqueFd> PackFile(int fd, const std::string& name, uint64_t size, uint32_t mode);

}  // namespace atl::cli
