// Replaces libFuzzer's main in g++ builds. Feeds every file of the corpus folder to the target once
// and prints TAP, so that a bug found by fuzzing stays fixed in builds without clang, too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// The entry point of libFuzzer. Each x_fuzz.cc defines it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  if (argc != 2) {
    (void)std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::printf("1..%zu\n", files.size());
  size_t number = 0;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    // If the target crashes, this name is the last line of output.
    std::printf("# %s\n", path.filename().c_str());
    (void)std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    std::printf("ok %zu - %s\n", ++number, path.filename().c_str());
  }
  return files.empty() ? 1 : 0;
}
