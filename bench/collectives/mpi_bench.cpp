// MPI as the rival of collectives_bench.cpp, built once with each implementation. Without a rank it is the program that
// google-benchmark's rows come from and starts itself under mpirun; as a rank it measures and rank 0 prints.
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include <troupe/bench/collectives/rows.hpp>

namespace troupe::collectives {
namespace {

void run_rank() {
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const auto& [size, bytes] : kRowSizes) {
    const double result = measure_row(rank, bytes, [](float* values, std::size_t count) {
      MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    if (rank == 0) std::printf("%s %f\n", size, result);
  }
  MPI_Finalize();
}

std::map<std::string, double> measure(const std::string& program, int ranks) {
  const std::string command = TROUPE_MPIRUN " -n " + std::to_string(ranks) + " " + program + " --as_rank";
  std::map<std::string, double> results;
  FILE* const output = popen(command.c_str(), "r");
  TROUPE_CHECK(output, "{}", command);
  std::array<char, 200> size{};
  double result = 0;
  while (std::fscanf(output, "%199s %lf", size.data(), &result) == 2) results[size.data()] = result;
  TROUPE_CHECK(pclose(output) == 0, "{} failed", command);
  return results;
}

}  // namespace
}  // namespace troupe::collectives

int main(int argc, char** argv) {
  using namespace troupe::collectives;
  if (argc == 2 && std::string(argv[1]) == "--as_rank") {
    run_rank();
    return 0;
  }
  // A test machine's user may be root, and ranks may outnumber cores.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
  benchmark::AddCustomContext("version", TROUPE_MPI_VERSION);
  const std::string program = argv[0];
  benchmark::Initialize(&argc, argv);
  register_process_rows([&](int ranks) { return measure(program, ranks); });
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
