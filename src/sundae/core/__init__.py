"""The paper as code.  Read in this order: noise, corruption, network, length, objective, sampling."""
