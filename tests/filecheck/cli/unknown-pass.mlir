// RUN: not byocir-opt %s -p clean-up,fold-constant 2>&1 | filecheck %s
// RUN: not byocir-opt %s -p 'fix-point{round=half_up}' 2>&1 | filecheck %s --check-prefix OPTION

// CHECK:      error[B221]: unknown pass 'fold-constant'
// CHECK-NEXT:   help  did you mean 'fold-constants'?

// OPTION:      error[B222]: pass fix-point has no option 'round'
// OPTION-NEXT:   help  did you mean 'rounding'?
