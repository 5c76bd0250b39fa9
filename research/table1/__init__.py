"""The systems that the paper's Table 1 compares attention with: one file each, with its paper's equations.

Importing this package registers their decoders by the package's public seam, as anybody's decoder would be:

    sat train flickr8k/ --plugin research/table1 --decoder nic --output my-nic

Data, training, search and scoring are the attention decoder's. `make` trains and evaluates all systems and writes
research/notes/table1.md. Retrieval, which copies captions, is not a decoder: it is in `research`.
"""

from show_attend_tell import register_decoder
from show_attend_tell.rerank.registry import register_reranker
from table1.brnn import Brnn, BrnnConfig
from table1.cmu_msr import CmuMsr, CmuMsrConfig
from table1.log_bilinear import LogBilinear, LogBilinearConfig
from table1.lrcn import Lrcn, LrcnConfig
from table1.m_rnn import MRnn, MRnnConfig
from table1.msr import Coverage, Msr, MsrConfig
from table1.nic import Nic, NicConfig

register_decoder(NicConfig, Nic)
register_decoder(LrcnConfig, Lrcn)
register_decoder(LogBilinearConfig, LogBilinear)
register_decoder(MRnnConfig, MRnn)
register_decoder(BrnnConfig, Brnn)
register_decoder(CmuMsrConfig, CmuMsr)
register_decoder(MsrConfig, Msr)
register_reranker("coverage", Coverage)
