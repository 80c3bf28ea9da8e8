// How processes of several machines are told apart where recordings are put together.
#pragma once

namespace lockstep {

// A process of one of several machines as one number: those of the second machine begin at ten
// million, those of the third at twice as much, so that the same pid on two machines is two
// processes. On one machine the number is the pid.
class MachinePid {
 public:
  static constexpr MachinePid of(int machine, int pid) {
    return MachinePid(pid > 0 ? pid % kOfAMachine + machine * kOfAMachine : pid);
  }
  static constexpr MachinePid read(int number) { return MachinePid(number); }

  constexpr int machine() const { return number_ / kOfAMachine; }
  constexpr int number() const { return number_; }

 private:
  static constexpr int kOfAMachine = 10'000'000;
  constexpr explicit MachinePid(int number) : number_(number) {}
  int number_;
};

}  // namespace lockstep
