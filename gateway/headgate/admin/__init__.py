"""The management port: the control plane's API, and the console for operators."""
