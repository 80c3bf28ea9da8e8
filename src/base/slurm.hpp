// What Slurm's variables say about a job's machines: shared by whoever starts ranks and whoever is
// one.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// The first name of Slurm's list: "gpu[03-05,9],login" is gpu03. Empty where it cannot be read.
std::string first_host(const std::string& node_list);

// Where the ranks of a job meet, when nobody says: the same on every machine, and another for every
// job. Even, since launchers talk on the port after it.
int port_of_job(std::int64_t job);

}  // namespace lockstep
